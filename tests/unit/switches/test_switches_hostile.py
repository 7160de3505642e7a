"""Answers of switches as a stranger could write them: cut, garbled, with values of any type."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis.strategies import (
    booleans,
    characters,
    data,
    dictionaries,
    floats,
    integers,
    lists,
    none,
    one_of,
    recursive,
    sampled_from,
    text,
)
from tests.tables import cases
from tests.unit.helpers.switch_answers import EOS_MAP, FIXTURES, NAMES

from rdmaprov.cli.explain_switch_run import switch_lines
from rdmaprov.switches.judge import SwitchAssessment, SwitchVerdict, document, judge_switch
from rdmaprov.switches.read import READERS, read_switch
from rdmaprov.switches.saved import SavedSwitch, find_switches, split_answers
from rdmaprov.switches.wanted import usual_settings

WANTED = usual_settings()
LEAVES = one_of(
    none(),
    booleans(),
    integers(),
    floats(),
    text(max_size=12),
    sampled_from(
        ["3", "on", "9" * 5000, "0-7", "-", "\x1b[31m", "[A|B]", "NULL", "up", "\u202e", "1e400"]
    ),
)
JSON = recursive(
    LEAVES,
    lambda inner: (
        lists(inner, max_size=4)
        | dictionaries(
            sampled_from(["3", "26", "mtu", "link", "qos", "Ethernet0", "swp1", "cmds", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def judge(*files: tuple[str, str]) -> SwitchAssessment:
    """Return the assessment of a switch with these files, printed as text and as JSON."""
    saved = SavedSwitch("leaf")
    for name, content in files:
        saved.answers += split_answers(name, content, saved.not_read.append)
    found = judge_switch(read_switch(saved), WANTED)
    assert is_harmless(found)
    return found


def is_harmless(found: SwitchAssessment) -> bool:
    """Return whether it can be printed, as text and as JSON, without what a terminal obeys."""
    shown = "\n".join(switch_lines([found], WANTED)) + json.dumps(document([found], WANTED))
    return not set(shown) & set("\x1b\u202e\x07")


def files_of(name: str) -> list[tuple[str, str]]:
    return [(path.name, path.read_text()) for path in sorted((FIXTURES / name).iterdir())]


# Right switches: what is cut off, or altered at random, must not make them better.
RIGHT = {
    "sonic": files_of("sonic-z9664f"),
    "arista": [
        (name, content.replace("qos prof", f"{EOS_MAP}qos prof"))
        for name, content in files_of("arista-7388")
    ],
    "cumulus": [
        *files_of("cumulus-roce"),
        ("nv_show_interface.json", '{"swp16": {"link": {"mtu": 9216, "oper-status": "up"}}}'),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_these_are_right(name):
    assert judge(*RIGHT[name]).verdict is SwitchVerdict.RIGHT


@pytest.mark.parametrize("name", ["sonic", "arista"])
@given(data())
@settings(max_examples=40)
def test_cut_answer_is_never_right(name, draw):
    """A terminal's log of Cumulus Linux has several answers, of which the first may be enough."""
    ((file, content),) = RIGHT[name]
    place = draw.draw(integers(0, len(content.rstrip()) - 1))
    assert judge((file, content[:place])).verdict is not SwitchVerdict.RIGHT


@given(data())
@settings(max_examples=60)
def test_cut_terminal_says_nothing_new(draw):
    """Each port's fact is that of the whole text, or not known."""
    (file, content), interfaces = RIGHT["cumulus"]
    whole = judge((file, content), interfaces).ports[0]
    cut = content[: content.rfind("\n", 0, draw.draw(integers(1, len(content)))) + 1]
    for port in judge((file, cut), interfaces).ports:
        assert port.pfc_rx in (None, whole.pfc_rx)
        assert port.mtu_bytes == whole.mtu_bytes
        assert port.class_of(26) in (None, 3)


@pytest.mark.parametrize("name", NAMES)
@given(data())
@settings(max_examples=12)
def test_garbled_text_is_read_without_an_error(name, draw):
    files = files_of(name)
    for _ in range(6):
        number = draw.draw(integers(0, len(files) - 1))
        file, content = files[number]
        at = draw.draw(integers(0, len(content)))
        noise = draw.draw(
            text(characters(codec="utf-8"), max_size=3)
            | sampled_from(["\0", "\x1b[2J", "\u202e", "9" * 5000, "---- ----\n", "\n", "}"])
        )
        files[number] = file, content[:at] + noise + content[at + draw.draw(integers(0, 40)) :]
    assert is_harmless(judge(*files))


def paths(value: object, above: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    return [above, *(path for key, each in inner for path in paths(each, (*above, key)))]


SONIC = json.loads(RIGHT["sonic"][0][1])
PLACES = [path for path in paths(SONIC) if path]


def altered(path, value):
    found = copy.deepcopy(SONIC)
    inside = found
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return "config_db.json", json.dumps(found)


@given(sampled_from(PLACES), JSON)
@settings(max_examples=80)
def test_value_of_any_type_is_read_without_an_error(path, value):
    """What no verdict needs may have any type; all else makes the switch wrong or unknown."""
    assert is_harmless(judge(altered(path, value)))


@pytest.mark.parametrize("path", cases(__file__, "needed_value_of_another_type_is_never_right"))
@pytest.mark.parametrize("value", [[], "x", 1.5, -1, True, "9" * 5000, {"a": []}, "\x1b[31m"])
def test_needed_value_of_another_type_is_never_right(path, value):
    assert judge(altered(path, value)).verdict is not SwitchVerdict.RIGHT


@given(JSON)
@settings(max_examples=80)
def test_any_json_under_known_names_is_read_without_an_error(value):
    for shape in (
        {"PORT": value},
        {"PORT_QOS_MAP": {"Ethernet0": value}},
        {"qos": value, "interface": value},
        [{"set": value}],
        {"swp1": {"link": value}},
        {"cmds": {"interface Ethernet1": value}},
        {"interfaces": {"Ethernet1": {"lineProtocolStatus": value, "txQueues": value}}},
        {
            "pfc": value,
            "trust": value,
            "congestion-control": value,
            "prio-map": value,
            "tc-map": {"0": value},
            "mode": "lossless",
        },
    ):
        assert judge(("a.json", json.dumps(shape))).verdict is not SwitchVerdict.RIGHT


def test_deep_json_and_endless_ports_have_bounds(tmp_path):
    (tmp_path / "deep.json").write_text('{"PORT":' * 100_000)
    (tmp_path / "wide.json").write_text(
        json.dumps({"PORT": {f"Ethernet{n}": {"mtu": "9216"} for n in range(9000)}})
    )
    deep, wide = (
        read_switch(find_switches([tmp_path / name])[0]) for name in ("deep.json", "wide.json")
    )
    assert deep.ports == ()
    assert deep.not_read[0] == "deep.json: cut, or no JSON"
    assert len(wide.ports) == 4096


def test_names_have_no_control_characters():
    """A port's name is of a known form; what a description or an action says is escaped."""
    config = copy.deepcopy(SONIC)
    config["PORT"]["Ether\x1bnet"] = {"mtu": "1500"}
    config["PFC_WD"]["Ethernet0"]["action"] = "\u202edrop"
    config["DEVICE_METADATA"] = {"localhost": {"hostname": "leaf\u202e01"}}
    found = judge(("config_db.json", json.dumps(config)))
    assert [port.name for port in found.ports] == ["Ethernet0", "Ethernet8"]
    shown = "\n".join(switch_lines([found], WANTED))
    assert not any(letter in shown for letter in "\u202e\x1b")


def test_every_reader_says_which_command_has_each_needed_fact():
    for reader in READERS:
        assert {fact for ask in reader.asks for fact in ask.facts}
        assert all(ask.tells and ask.command for ask in reader.asks)
