"""Listings of mlnx_qos, as versions and NICs printed them: read right, or refused whole."""

from dataclasses import replace
from pathlib import Path

import pytest
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.qos.mlnx_qos import MlnxQos, parse
from plugins.module_utils.qos.state import Seen
from tests.roles.fake import FakeMachine
from tests.roles.qos_node import MAP
from tests.tables import cases

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "mlnx_qos"

PRIORITY_3 = (False, False, False, True, False, False, False, False)
SWAPPED = (1, 0, 2, 3, 4, 5, 6, 7)  # the factory's: priority 0 is in class 1
VENDOR = Seen(
    host=True,
    entries=tuple(MAP.items()),
    pfc=PRIORITY_3,
    cable_length_m=7,
    tsa=("vendor",) * 8,
    percent=(0,) * 8,
    classes=SWAPPED,
    priority_buffer=None,
    buffer_bytes=None,
)
WITH_BUFFERS = replace(
    VENDOR,
    priority_buffer=(0, 2, 5, 7, 1, 2, 3, 6),
    buffer_bytes=(80256, 80256, 896, 80256, 896, 896, 896, 896),
)
READABLE = {
    "no-buffers": VENDOR,
    "entry-moved-two-rows": replace(WITH_BUFFERS, entries=tuple({**MAP, 30: 6}.items())),
    "trust-pcp": replace(WITH_BUFFERS, entries=()),
    "ets-and-strict": replace(
        VENDOR,
        pfc=(False, False, False, False, False, True, False, False),
        cable_length_m=30,
        tsa=("ets", "ets", "ets", "ets", "strict", "strict", "strict", "strict"),
        percent=(9, 1, 80, 10, 0, 0, 0, 0),
        classes=(0, 1, 2, 3, 4, 5, 6, 7),
        priority_buffer=(0, 0, 0, 0, 0, 1, 0, 0),
        buffer_bytes=(19872, 220896, 0, 0, 0, 0, 0, 0),
    ),
    "ofed-4.2-indentation-lost": replace(
        VENDOR,
        pfc=(True, False, True, False, False, False, True, True),
        cable_length_m=10,
        tsa=("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
        percent=(10, 10, 10, 10, 10, 10, 0, 40),
    ),
}
REFUSED = cases(__file__, "refused")


def listing(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def sorted_map(seen: Seen) -> Seen:
    """Return it with its map in order: versions list a priority's DSCPs up or down."""
    return replace(seen, entries=tuple(sorted(seen.entries)))


@pytest.mark.parametrize("name", READABLE)
def test_listing_is_read_right(name: str):
    assert sorted_map(parse(listing(name), "ens1")) == READABLE[name]


@pytest.mark.parametrize("name", REFUSED)
def test_foreign_listing_is_refused(name: str):
    with pytest.raises(NodeError, match=REFUSED[name]) as refused:
        parse(listing(name), "ens1")
    assert str(refused.value).startswith("ens1: ")
    assert "mlnx_qos -i ens1 -a" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_fixture_is_tested():
    assert {path.stem for path in FIXTURES.glob("*.txt")} == {*READABLE, *REFUSED}


@pytest.mark.parametrize("name", READABLE)
def test_listing_that_is_cut_anywhere_is_refused(name: str):
    text = listing(name).rstrip()
    parse(text, "ens1")
    for end in range(len(text)):
        with pytest.raises(NodeError):
            parse(text[:end], "ens1")


def test_listing_without_a_line_is_refused():
    lines = listing("ets-and-strict").splitlines()
    for number, line in enumerate(lines):
        text = "\n".join([*lines[:number], *lines[number + 1 :]])
        if line.startswith(("dscp2prio", "default priority", "PFC configuration")):
            assert parse(text, "ens1") == parse("\n".join(lines), "ens1")
        elif line.strip().startswith(("priority  ", "prio:")):
            continue  # column numbers; a DSCP that the port does not list has no entry
        else:
            with pytest.raises(NodeError):
                parse(text, "ens1")


def test_two_listings_are_refused():
    text = listing("no-buffers")
    with pytest.raises(NodeError, match="2 lines Priority trust state:"):
        parse(text + text, "ens1")


@pytest.mark.parametrize(("before", "after"), cases(__file__, "value_that_is_not_known_is_refused"))
def test_value_that_is_not_known_is_refused(before: str, after: str):
    text = listing("ets-and-strict")
    assert before in text
    with pytest.raises(NodeError, match="roce_qos_backend: dcb"):
        parse(text.replace(before, after), "ens1")


def test_warning_and_rate_limit_are_passed_over():
    warning = "****** WARNING: lldpad service is running and may overwrite your settings ******\n\n"
    text = warning + listing("no-buffers").replace("unlimited", "100.0 Gbps")
    assert sorted_map(parse(text, "ens1")) == VENDOR


# How the tool ends


def ending(machine: FakeMachine, output: str) -> MlnxQos:
    def end(argv: list[str]) -> str:
        raise CommandFailed(argv, 1, output)

    machine.programs["mlnx_qos "] = end
    return MlnxQos(machine)


def test_port_without_dcb_has_none(machine: FakeMachine):
    assert ending(machine, listing("no-dcb")).read("ens1") is None


@pytest.mark.parametrize("output", cases(__file__, "tool_that_breaks_off_is_an_error_of_one_line"))
def test_tool_that_breaks_off_is_an_error_of_one_line(machine: FakeMachine, output: str):
    with pytest.raises(NodeError, match=r"ens1: .*expected a listing") as broken:
        ending(machine, output).read("ens1")
    assert "\n" not in str(broken.value)
    assert output.rpartition("\n")[2] in str(broken.value).replace("\\", "")
