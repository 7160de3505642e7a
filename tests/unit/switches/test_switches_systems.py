"""A system is known by what only it writes; all others are not known, and nothing is judged."""

import pytest
import yaml
from tests.tables import cases
from tests.unit.helpers.switch_answers import FIXTURES, LOSSLESS, SavedAnswers, sentences

from rdmaprov.switches.judge import SwitchVerdict, judge_switch
from rdmaprov.switches.model import EcnCurve, PfcWatchdog, SwitchSystem
from rdmaprov.switches.problem import NOTE
from rdmaprov.switches.read import read_switch
from rdmaprov.switches.saved import SavedSwitch, split_answers
from rdmaprov.switches.wanted import usual_settings

OTHERS = yaml.safe_load((FIXTURES / "systems.yml").read_text())
EOS = (FIXTURES / "arista-7388/running-config.txt").read_text()


def reading(*texts):
    saved = SavedSwitch("leaf")
    for number, text in enumerate(texts):
        saved.answers += split_answers(f"{number}.txt", text, saved.not_read.append)
    return read_switch(saved)


def port_of(*texts):
    (port, *_) = reading(*texts).ports
    return port


def remedies(found):
    return [each.remedy for each in judge_switch(found, usual_settings()).problems if each.remedy]


@pytest.mark.parametrize("other", OTHERS, ids=lambda each: each["system"])
def test_system_without_a_reader_is_named_and_not_judged(other):
    found = reading(other["text"])
    assert (found.system, found.ports) == (None, ())
    (said,) = found.not_read
    assert other["system"] in said
    assert judge_switch(found, usual_settings()).verdict is SwitchVerdict.UNKNOWN


def test_system_without_a_reader_has_something_to_do_instead():
    said = [reading(each["text"]).not_read[0] for each in OTHERS]
    (saved,) = (each for each in said if "; save instead `" in each)
    assert "Enterprise SONiC" in saved
    assert saved.endswith("`sonic-cfggen -d --print-data`")
    assert all("by hand" in each for each in said if each != saved)


@pytest.mark.parametrize(
    "text", ["interface Ethernet1\n   mtu 9214\nend\n", "qos profile X\n", "Linux leaf01\n"]
)
def test_what_several_systems_write_proves_none(text):
    found = reading(text)
    assert (found.system, found.ports) == (None, ())
    assert found.not_read[0].endswith("is of no known system")
    assert "--commands" in found.not_read[1]


@pytest.mark.parametrize("other", OTHERS, ids=lambda each: each["system"])
def test_text_that_fits_two_systems_is_read_as_neither(other):
    found = reading(other["text"] + EOS)
    assert (found.system, found.ports) == (None, ())
    assert "fits Arista EOS and " in found.not_read[0]


def test_answers_of_two_systems_are_no_switch():
    found = reading((FIXTURES / "sonic-z9664f/config_db.json").read_text(), EOS)
    assert (found.system, found.ports) == (None, ())
    assert found.not_read == ("1.txt is of Arista EOS, others are of SONiC",)


def test_command_line_beside_config_db_leaves_that_to_be_read():
    found = reading((FIXTURES / "sonic-z9664f/config_db.json").read_text(), OTHERS[-1]["text"])
    assert (found.system, len(found.ports)) == (SwitchSystem.SONIC, 2)
    assert judge_switch(found, usual_settings()).verdict is SwitchVerdict.UNKNOWN


def test_published_leaf_of_eos_is_right(tmp_path):
    found = SavedAnswers(tmp_path, "arista-leaf-guide").judge()
    assert found.verdict is SwitchVerdict.RIGHT
    (port,) = found.ports
    assert port.ecn == {3: EcnCurve(True, 256, 512, "kbytes", 100)}


EOS_INHERITS = cases(__file__, "eos_inherits")


def test_port_of_eos_has_the_lines_of_its_interface_profile():
    found = reading(EOS_INHERITS)
    profiled, bare, gone, own = found.ports
    assert (profiled.is_up, profiled.pfc_tx, profiled.trusts_dscp) == (None, {3}, True)
    assert (profiled.mtu_bytes, bare.mtu_bytes, own.mtu_bytes) == (9214, 9214, 1500)
    assert (bare.is_up, bare.pfc_tx) == (False, frozenset())
    assert (gone.pfc_tx, gone.trusts_dscp, gone.ecn) == (None, None, None)
    assert own.trusts_dscp is False
    assert set(found.where.values()) == {"show running-config"}


def test_repair_of_eos_names_the_port_whose_own_line_is_wrong():
    found = reading(EOS.replace("   load-interval 2\n", "   qos trust cos\n"))
    assert any(each.startswith("interface PORT; qos trust dscp") for each in remedies(found))


def test_repair_of_sonic_names_the_queue_that_has_no_profile():
    text = (FIXTURES / "sonic-z9664f/config_db.json").read_text()
    bound = '"scheduler": "ROCE@3", "wred_profile": "ROCE"'
    assert bound in text
    repair = "sonic-db-cli CONFIG_DB HSET 'QUEUE|PORT|3' wred_profile 'ROCE'"
    assert remedies(reading(text.replace(bound, '"scheduler": "ROCE@3"')))[0].startswith(repair)


def test_repair_of_sonic_needs_one_map_of_a_plain_name():
    config = (FIXTURES / "sonic-z9664f/config_db.json").read_text()
    unbound = config.replace('"dscp_to_tc_map": "ROCE"', '"x": "y"')
    for name in ('"a": {}, "ROCE": {"0"', '"$(b)": {"0"'):
        assert remedies(reading(unbound.replace('"ROCE": {"0": "0", "1": "0"', name, 1))) == []


STORMS = cases(__file__, "storms")


def test_storm_that_lasts_is_told_from_one_that_ended():
    found = reading(STORMS)
    assert [port.watchdog for port in found.ports] == [
        PfcWatchdog(True, "", 1, (3,)),
        PfcWatchdog(True, "", 2),
        PfcWatchdog(True, "", 3, (4,)),
    ]
    notes = sentences(judge_switch(found, usual_settings()), NOTE)
    read = "(read: show pfcwd stats)"
    assert f"the PFC watchdog holds queue 3: its storm of pause had not ended {read}" in notes
    assert sum("holds queue" in each for each in notes) == 2


def test_storm_of_a_release_without_status_lasts_until_it_is_restored():
    text = STORMS.replace("stormed", "    N/A").replace("operational", "        N/A")
    assert [port.watchdog.stormed for port in reading(text).ports] == [(3,), (), (4,)]


def test_words_of_a_table_in_other_text_are_no_table_of_sonic():
    assert reading("Port Tx power: 3 dBm, RemoteDevice none\n").system is None


QUEUES = "qos egress-queue-mapping default-global"
NV_SET = (FIXTURES / "cumulus-nv-set/commands.txt").read_text()
ROCE = "nv set qos roce\nnv set interface swp1-2,swp9s0 link mtu 9216\n"


def test_published_nv_set_commands_are_right(tmp_path):
    found = SavedAnswers(tmp_path, "cumulus-nv-set").judge()
    assert found.verdict is SwitchVerdict.RIGHT
    (port,) = found.ports
    assert (port.name, port.mtu_bytes, port.pfc_tx) == ("swp12", 9000, LOSSLESS)
    assert (port.class_of(26), port.class_of(48), port.queue_of(3)) == (3, 6, 3)
    assert port.ecn == {3: EcnCurve(True, 150_000, 300_000, percent=100)}


def test_mode_of_roce_sets_what_it_is_known_to_set():
    found = reading(ROCE)
    assert [port.name for port in found.ports] == ["swp1", "swp2", "swp9s0"]
    assert judge_switch(found, usual_settings()).verdict is SwitchVerdict.RIGHT


@pytest.mark.parametrize(
    ("line", "pfc", "class_26", "queue_3", "trusts"),
    [
        ("qos roce mode lossy", set(), 3, 3, True),
        ("qos roce mode lossless-single-ipool", {3}, 3, 3, True),
        ("qos roce mode lossy-multi-tc", None, None, None, None),
        ("qos roce enable off", None, None, None, None),
        ("qos roce state disabled", None, None, None, None),
        ("qos mapping default-global dscp 26 switch-priority 4", {3}, 4, 3, True),
        ("qos mapping default-global trust l2", {3}, 3, 3, False),
        (f"{QUEUES} switch-priority 3 traffic-class 0", {3}, 3, 0, True),
        ("qos pfc default-global switch-priority 2", None, 3, 3, True),
        ("interface swp1 qos roce mode lossy", None, None, None, None),
        ("interface swp1 qos pfc profile GONE", None, 3, 3, True),
    ],
)
def test_line_beside_the_mode_changes_what_it_says_or_leaves_it_open(
    line, pfc, class_26, queue_3, trusts
):
    port = port_of(f"{ROCE}nv set {line}\n")
    said = port.pfc_tx, port.class_of(26), port.queue_of(3), port.trusts_dscp
    assert said == (pfc, class_26, queue_3, trusts)


def test_list_of_ports_may_name_the_kind_once():
    found = reading("nv set qos roce\nnv set interface swp1-2,5,swp9s0-1 link mtu 9216\n")
    assert [port.name for port in found.ports] == ["swp1", "swp2", "swp5", "swp9s0", "swp9s1"]


@pytest.mark.parametrize("text", ["cumulus@leaf01:~$ nv set qos roce\n", "\n"])
def test_session_without_any_answer_says_what_can_be_saved(text):
    assert "--commands" in reading(text).not_read[-1]


@pytest.mark.parametrize("line", ["interface Management1", "! device: l (DCS-7060X6, EOS-4.33.1F)"])
def test_configuration_of_eos_without_any_qos_is_known(line):
    found = reading(f"{line}\ninterface Ethernet1\n   mtu 1500\nend\n")
    assert (found.system, found.ports[0].pfc_tx) == (SwitchSystem.ARISTA, frozenset())


def test_port_that_is_split_is_none():
    text = ROCE + "nv set interface swp1 link breakout 2x lanes-per-port 4\n"
    text += "nv set interface swp1s0,swp1s1 qos pfc-watchdog state enable\n"
    found = reading(text + "nv set system hostname core-01\n")
    assert [port.name for port in found.ports] == ["swp2", "swp9s0", "swp1s0", "swp1s1"]
    assert found.name == "core-01"
    assert found.ports[2].watchdog == PfcWatchdog(True)


@pytest.mark.parametrize(
    "line",
    ["nv unset qos roce", "nv config apply", "nv set x 'y", "nv set qos roce mode lossless more"],
)
def test_commands_that_are_no_configuration_are_not_read(line):
    found = reading(f"{ROCE}nv set qos roce mode lossless\n{line}\n")
    assert (found.system, found.ports[0].pfc_tx) == (SwitchSystem.CUMULUS, None)
    assert "nv config show -o commands" in found.not_read[0]


def test_repair_of_cumulus_names_the_profile_of_the_port():
    text = NV_SET.replace("dscp 26 switch-priority 3", "dscp 26 switch-priority 4")
    assert remedies(reading(text)) == [
        "nv set qos mapping ROCE_MAP dscp 26 switch-priority 3; nv config apply"
    ]
