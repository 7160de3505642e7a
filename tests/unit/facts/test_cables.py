"""mlxlink's texts: real ones read as they are meant, and no other program's."""

import os
from itertools import chain, zip_longest
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.shell import execute

from rdmaprov.facts import CouldNotTell, cables
from rdmaprov.facts.errors import NotInstalled
from rdmaprov.probe.session import Limits

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/mlxlink"


def text(*names: str) -> str:
    return "".join((FIXTURES / f"{name}.txt").read_text() for name in names)


def test_copper_cable_has_no_sensors():
    """Its zeros within 0 to 0, and its lanes without a signal, say nothing: the link is up."""
    for name in ("ndr-passive-copper", "bluefield3-passive-copper", "hdr100-two-lanes"):
        found = cables.parse_cable(text(name))
        assert found.readings == ()
        assert found.advice == "No issue was observed"
    assert cables.parse_cable(text("ndr-passive-copper")).part == "OSFPFL-400G-PC01"
    assert cables.parse_cable(text("hdr100-two-lanes")).part == ""


def test_optical_module_has_limits_of_its_own():
    found = cables.parse_cable(text("hdr100-two-lanes", "optical-module", "optical-counters"))
    by_name = {each.name: each for each in found.readings}
    assert by_name["Temperature [C]"].values == (54,)
    received = by_name["Rx Power Current [dBm]"]
    assert (received.values, received.low, received.high) == (
        (1.886, 1.989, 2.281, 1.976),
        -10.41,
        6,
    )
    assert len(found.readings) == 5
    assert all(each.is_within_limits for each in found.readings)
    assert (found.part, found.serial) == ("T-F4GS-BV0", "CWJH05025502589")
    assert found.error_ratio == pytest.approx(0)


@pytest.mark.parametrize(
    ("shown", "ratio"), [("15E-255", 1.5e-254), ("3E-11", 3e-11), ("N/A", None)]
)
def test_error_ratio(shown: str, ratio: float | None):
    said = text("bluefield3-passive-copper").replace(
        "Effective Physical BER             : 15E-255", f"Effective Physical BER : {shown}"
    )
    assert cables.parse_cable(said).error_ratio == ratio


def test_dark_lane_is_outside_its_limits():
    said = text("hdr100-two-lanes", "optical-module").replace("1.989", "-40")
    outside = [each.name for each in cables.parse_cable(said).readings if not each.is_within_limits]
    assert outside == ["Rx Power Current [dBm]"]


def test_all_modules_are_asked_in_one_command():
    assert cables.command(["0000:18:00.0", "0000:40:00.0"]).count(f"timeout {cables.LIMIT_S} ") == 2


def test_a_module_that_does_not_answer_ends_before_the_command():
    assert 10 <= cables.LIMIT_S <= Limits().command_s - 5


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_tools_that_print_at_once_are_told_apart(tmp_path, shell):
    tool = tmp_path / "mlxlink"
    tool.write_text('#!/bin/sh\nfor n in $(seq 200); do echo "$n of $2  "; done\nexit 3\n')
    tool.chmod(0o700)
    ports = [f"0000:{number}:00.0" for number in range(10, 18)]
    said = execute(
        [shell, "-c", cables.command(ports)],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    ).stdout.splitlines()
    for port in ports:
        assert [line for line in said if line.startswith(f"{port} ")] == [
            *(f"{port} {n} of {port}  " for n in range(1, 201)),
            f"{port} ",
            f"{port} exit 3",
        ]


def of_port(address, said, code=0):
    return [f"{address} {line}\n" for line in (*said.splitlines(), "", f"exit {code}")]


def test_answers_of_several_ports_are_told_apart():
    """Also where their lines come by turns, as the tools run side by side."""
    pairs = zip_longest(
        of_port("0000:40:00.0", text("ndr-passive-copper")),
        of_port("0000:18:00.0", "-E- Failed to open device", 1),
        fillvalue="",
    )
    said = "".join(chain.from_iterable(pairs)) + "rdmaprov-end\n"
    assert cables.parse(said, "0000:40:00.0").serial == "C2604279049-2"
    with pytest.raises(CouldNotTell, match="Failed to open device; it requires root"):
        cables.parse(said, "0000:18:00.0")


@pytest.mark.parametrize(("said", "why"), cases(__file__, "other_answers"))
def test_other_answer_is_unknown(said: str, why: str):
    with pytest.raises(CouldNotTell, match=why) as raised:
        cables.parse(said, "0000:18:00.0")
    assert isinstance(raised.value, NotInstalled) == (why == "not installed")
