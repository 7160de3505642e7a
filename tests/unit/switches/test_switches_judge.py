"""Switches judged: right and wrong PFC, ECN, MTU, maps of SONiC, Cumulus Linux and Arista."""

import pytest
import yaml
from tests.tables import cases
from tests.unit.helpers.switch_answers import (
    FIXTURES,
    NOTE,
    UNKNOWN,
    WRONG,
    SavedAnswers,
    right_switch,
    sentences,
)

from rdmaprov.switches.judge import SwitchVerdict
from rdmaprov.switches.model import SwitchFact


@pytest.fixture
def sonic(tmp_path):
    return right_switch(tmp_path, "sonic")


@pytest.fixture
def cumulus(tmp_path):
    return right_switch(tmp_path, "cumulus")


@pytest.fixture
def arista(tmp_path):
    return right_switch(tmp_path, "arista")


@pytest.mark.parametrize("name", ["sonic", "cumulus", "arista"])
def test_right_switch_is_right(request, name):
    found = request.getfixturevalue(name).judge()
    assert (found.verdict, sentences(found, WRONG), sentences(found, UNKNOWN)) == (
        SwitchVerdict.RIGHT,
        [],
        [],
    )


@pytest.mark.parametrize(
    "altered", yaml.safe_load((FIXTURES / "altered.yml").read_text()), ids=lambda each: each["says"]
)
def test_one_wrong_value_is_named_and_nothing_else(request, altered):
    switch = request.getfixturevalue(altered["switch"])
    found = switch.alter((altered["before"], altered["after"])).judge()
    assert (sentences(found, WRONG), found.verdict) == ([altered["says"]], SwitchVerdict.WRONG)
    (problem,) = [each for each in found.problems if each.proven]
    assert problem.remedy == altered["repair"]
    assert found.problems[problem] == [port.name for port in found.ports]


def test_mtu_of_cumulus(cumulus):
    small = {"swp16": {"link": {"mtu": 1500, "oper-status": "up"}}}
    assert sentences(cumulus.write("nv_show_interface.json", small).judge(), WRONG) == [
        "the MTU is 1,500, expected at least 4,192 (usual for RoCE; read: nv show interface)"
    ]


def test_real_wrong_switches(tmp_path):
    lossy = SavedAnswers(tmp_path, "cumulus-lossy-multi-tc").judge()
    assert [each.partition(",")[0] for each in sentences(lossy, WRONG)] == [
        "PFC is off",
        "DSCP 26 (RoCE data) has class 4",
    ]
    plain = SavedAnswers(tmp_path, "cumulus-no-roce").judge()
    assert [each.partition(",")[0] for each in sentences(plain, WRONG)] == [
        "PFC is off",
        "the port does not trust DSCP",
        "ECN is off for queue 3",
    ]
    storage = SavedAnswers(tmp_path, "arista-7050").judge()
    assert [each.partition(",")[0] for each in sentences(storage, WRONG)] == [
        "ECN is off for all queues"
    ]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    cases(__file__, "buffers_leave_room_for_pauses_which_ecn_comes_before"),
    ids=["no room", "ECN after PFC"],
)
def test_buffers_leave_room_for_pauses_which_ecn_comes_before(tmp_path, before, after, says):
    (wrong,) = sentences(
        SavedAnswers(tmp_path, "sonic-guide").alter((before, after)).judge(), WRONG
    )
    assert wrong.startswith(says)


def test_notes_do_not_count(cumulus, sonic):
    found = cumulus.judge()
    assert found.verdict is SwitchVerdict.RIGHT
    assert sentences(found, NOTE) == [
        "663,060,754,115 packets of tx RoCE dropped since the counters were cleared"
        " (read: nv show interface swp16 qos roce counters)"
    ]
    off = sonic.alter(('"detection_time": "200", ', "")).judge()
    assert "the PFC watchdog is off (read: CONFIG_DB PFC_WD)" in sentences(off, NOTE)
    assert off.verdict is SwitchVerdict.RIGHT


def test_what_is_not_read_is_not_right(arista, tmp_path):
    (tmp_path / "short").mkdir()
    short = SavedAnswers(tmp_path / "short", "arista-7388").judge()
    assert short.verdict is SwitchVerdict.UNKNOWN
    assert sentences(short, UNKNOWN) == [
        "the class of DSCP 26 (RoCE data)",
        "the class of DSCP 48 (CNPs)",
        "ECN of the queue of RoCE data",
    ]
    assert short.not_read == (SwitchFact.BUFFERS, SwitchFact.WEIGHTS, SwitchFact.DROPS)
    cut = arista.alter(("end\n", "")).judge()
    assert cut.verdict is SwitchVerdict.UNKNOWN
    assert sentences(cut, UNKNOWN) == ["not read: running-config.txt is cut: it has no `end`"]


def test_exceptions_of_the_switch_are_not_verified(cumulus):
    listed = ("Exception List\n=================\nNo Data", "Exception List\n====\n  swp3  pfc")
    found = cumulus.alter(listed).judge()
    assert found.verdict is SwitchVerdict.UNKNOWN
    assert sentences(found, UNKNOWN)[0].startswith("not read: `nv show qos roce` lists exceptions")


def test_switch_whose_ports_are_all_down_is_not_right(sonic):
    found = sonic.alter(('"admin_status": "up"', '"admin_status": "down"')).judge()
    assert (found.ports, found.verdict) == ((), SwitchVerdict.UNKNOWN)
