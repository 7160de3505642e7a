"""Switches judged: right and wrong PFC, ECN, MTU, maps of SONiC, Cumulus Linux and Arista."""

import pytest
from tests.unit.helpers.switch_answers import (
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


PFC = "usual for RoCE; read:"
# One value of a real answer is altered; what is then said, and what repairs it.
ALTERED = [
    ("sonic", [('"pfc_enable": "3,4"', '"pfc_enable": "4"')],
     f"PFC is on for priority 4, expected priority 3 ({PFC} CONFIG_DB PORT_QOS_MAP)",
     "sudo config interface pfc priority PORT 3 on"),
    ("sonic", [('"pfc_enable": "3,4"', '"pfc_enable": ""')],
     f"PFC is off, expected priority 3 ({PFC} CONFIG_DB PORT_QOS_MAP)",
     "sudo config interface pfc priority PORT 3 on"),
    ("sonic", [('"ecn": "ecn_green"', '"ecn": "ecn_none"')],
     f"ECN is off for all queues, expected on ({PFC} CONFIG_DB QUEUE, WRED_PROFILE)",
     "sonic-db-cli CONFIG_DB HSET 'WRED_PROFILE|ROCE' ecn ecn_all"),
    ("sonic", [('"green_max_threshold": "12480000"', '"green_max_threshold": "1024"')],
     "ECN of queue 3 begins at 2,048,000 bytes and ends at 1,024,"
     f" expected a beginning below its end ({PFC} CONFIG_DB QUEUE, WRED_PROFILE)", ""),
    ("sonic", [('"mtu": "9216"', '"mtu": "1500"')],
     f"the MTU is 1,500, expected at least 4,192 ({PFC} CONFIG_DB PORT)",
     "sudo config interface mtu PORT 4192"),
    ("sonic", [('"26": "3"', '"26": "0"')],
     "DSCP 26 (RoCE data) has class 0, which pauses of priority 0 stop, expected priority 3"
     f" ({PFC} CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP)",
     "sonic-db-cli CONFIG_DB HSET 'DSCP_TO_TC_MAP|ROCE' 26 3"),
    ("sonic", [('"48": "6"', '"48": "3"')],
     "DSCP 48 (CNPs) has class 3, which PFC pauses, expected priority 6"
     f" ({PFC} CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP)",
     "sonic-db-cli CONFIG_DB HSET 'DSCP_TO_TC_MAP|ROCE' 48 6"),
    ("sonic", [('"dscp_to_tc_map": "ROCE", ', "")],
     f"the port does not trust DSCP, expected dscp ({PFC} CONFIG_DB PORT_QOS_MAP)",
     "sonic-db-cli CONFIG_DB HSET 'PORT_QOS_MAP|PORT' dscp_to_tc_map ROCE"),
    ("cumulus", [("  pfc-priority      3   ", "  pfc-priority      5   ")],
     "PFC is on for priority 5, expected priority 3"
     f" ({PFC} nv show interface swp16 qos roce status)",
     "nv set qos pfc default-global switch-priority 3; nv config apply"),
    ("cumulus", [("  tx-enabled        yes", "  tx-enabled        no ")],
     "PFC is on for priority 3 as it receives, off as it sends, expected priority 3"
     f" ({PFC} nv show interface swp16 qos roce status)",
     "nv set qos pfc default-global switch-priority 3; nv config apply"),
    ("cumulus", [("  enabled-tc        0,3  ", "  enabled-tc        0    ")],
     f"ECN is off for queue 3, expected on ({PFC} nv show interface swp16 qos roce status)",
     "nv set qos congestion-control default-global traffic-class 3 ecn enable; nv config apply"),
    ("cumulus", [("  trust-mode        pcp,dscp", "  trust-mode        pcp     ")],
     f"the port does not trust DSCP, expected dscp ({PFC} nv show interface swp16 qos roce status)",
     "nv set qos mapping default-global trust both; nv config apply"),
    ("arista", [("priority 3 no-drop", "priority 4 no-drop")],
     f"PFC is on for priority 4, expected priority 3 ({PFC} show running-config)",
     "qos profile QOS_ROCE_DCQCN; priority-flow-control on;"
     " priority-flow-control priority 3 no-drop"),
    ("arista", [("      random-detect ecn minimum", "      random-detect drop minimum")],
     f"ECN is off for all queues, expected on ({PFC} show running-config)",
     "qos profile QOS_ROCE_DCQCN; uc-tx-queue 3; random-detect ecn minimum-threshold N kbytes"
     " maximum-threshold N kbytes"),
    ("arista", [("mtu 9214", "mtu 1500")],
     f"the MTU is 1,500, expected at least 4,192 ({PFC} show running-config)",
     "interface PORT; mtu 4192"),
    ("arista", [("dscp 26 to traffic-class 3", "dscp 26 to traffic-class 1")],
     "DSCP 26 (RoCE data) has class 1, which pauses of priority 1 stop, expected priority 3"
     f" ({PFC} show running-config)",
     "qos map dscp 26 to traffic-class 3"),
    ("arista", [("qos trust dscp", "qos trust cos")],
     f"the port does not trust DSCP, expected dscp ({PFC} show running-config)",
     "qos profile QOS_ROCE_DCQCN; qos trust dscp"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pairs", "says", "repair"), ALTERED)
def test_one_wrong_value_is_named_and_nothing_else(request, name, pairs, says, repair):
    found = request.getfixturevalue(name).alter(*pairs).judge()
    assert (sentences(found, WRONG), found.verdict) == ([says], SwitchVerdict.WRONG)
    (problem,) = [each for each in found.problems if each.proven]
    assert problem.remedy == repair
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


def test_pfc_without_room_for_pauses(tmp_path):
    saved = SavedAnswers(tmp_path, "sonic-guide").alter((', "xoff": "165888"', ""))
    (wrong,) = sentences(saved.judge(), WRONG)
    assert wrong.startswith("priority group 3 of RoCE data has no room for what follows a pause")


def test_ecn_must_begin_before_pfc_pauses(tmp_path):
    saved = SavedAnswers(tmp_path, "sonic-guide").alter(
        ('"dynamic_th": "3"', '"static_th": "100000"')
    )
    (wrong,) = sentences(saved.judge(), WRONG)
    assert wrong.startswith("ECN of queue 3 begins at 153,600 bytes, PFC pauses at 100,000,")


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
