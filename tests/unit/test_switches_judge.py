"""Switches judged: right and wrong PFC, ECN, MTU, maps of SONiC, Cumulus Linux and Arista."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.sites import GOOD, write
from tests.unit.switch_answers import EOS_MAP, SavedAnswers, sentences

from rdmaprov.errors import UsageError
from rdmaprov.inventory import load_site
from rdmaprov.switches.judge import SwitchVerdict, choose_ports, nodes_without_port
from rdmaprov.switches.model import SwitchFact, SwitchPort
from rdmaprov.switches.problem import SwitchLevel
from rdmaprov.switches.wanted import usual_settings, wanted_of

WRONG, UNKNOWN, NOTE = SwitchLevel
SWP16 = {"swp16": {"link": {"mtu": 9216, "speed": "400G", "oper-status": "up"}}}
MAP = ("qos profile", f"{EOS_MAP}qos profile")
SITE = replace(usual_settings(), is_site=True, mtu_bytes=9000)


@pytest.fixture
def sonic(tmp_path):
    return SavedAnswers(tmp_path, "sonic-z9664f")


@pytest.fixture
def cumulus(tmp_path):
    return SavedAnswers(tmp_path, "cumulus-roce").write("nv_show_interface.json", SWP16)


@pytest.fixture
def arista(tmp_path):
    return SavedAnswers(tmp_path, "arista-7388").alter(MAP)


@pytest.mark.parametrize("name", ["sonic", "cumulus", "arista"])
def test_right_switch_is_right(request, name):
    found = request.getfixturevalue(name).judge()
    assert (found.verdict, sentences(found, WRONG), sentences(found, UNKNOWN)) == (
        SwitchVerdict.RIGHT, [], [],
    )  # fmt: skip


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
     "sudo ecnconfig -q 3 on"),
    ("sonic", [('"green_max_threshold": "12480000"', '"green_max_threshold": "1024"')],
     "ECN of queue 3 begins at 2,048,000 bytes and ends at 1,024,"
     f" expected a beginning below its end ({PFC} CONFIG_DB QUEUE, WRED_PROFILE)", ""),
    ("sonic", [('"mtu": "9216"', '"mtu": "1500"')],
     f"the MTU is 1,500, expected at least 4,192 ({PFC} CONFIG_DB PORT)",
     "sudo config interface mtu PORT 4192"),
    ("sonic", [('"26": "3"', '"26": "0"')],
     "DSCP 26 (RoCE data) has class 0, which pauses of priority 0 stop, expected priority 3"
     f" ({PFC} CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP)",
     "sonic-db-cli CONFIG_DB HSET 'DSCP_TO_TC_MAP|MAP' 26 3"),
    ("sonic", [('"48": "6"', '"48": "3"')],
     "DSCP 48 (CNPs) has class 3, which PFC pauses, expected priority 6"
     f" ({PFC} CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP)",
     "sonic-db-cli CONFIG_DB HSET 'DSCP_TO_TC_MAP|MAP' 48 6"),
    ("sonic", [('"dscp_to_tc_map": "ROCE", ', "")],
     f"the port does not trust DSCP, expected dscp ({PFC} CONFIG_DB PORT_QOS_MAP)",
     "sonic-db-cli CONFIG_DB HSET 'PORT_QOS_MAP|PORT' dscp_to_tc_map MAP"),
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
     "interface PORT; priority-flow-control on; priority-flow-control priority 3 no-drop"),
    ("arista", [("      random-detect ecn minimum", "      random-detect drop minimum")],
     f"ECN is off for all queues, expected on ({PFC} show running-config)",
     "interface PORT; uc-tx-queue 3; random-detect ecn minimum-threshold N kbytes"
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
     "interface PORT; qos trust dscp"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pairs", "says", "repair"), ALTERED)
def test_one_wrong_value_is_named_and_nothing_else(request, name, pairs, says, repair):
    found = request.getfixturevalue(name).alter(*pairs).judge()
    assert (sentences(found, WRONG), found.verdict) == ([says], SwitchVerdict.WRONG)
    (problem,) = [each for each in found.problems if each.problem.level == WRONG]
    assert problem.problem.remedy == repair
    assert problem.ports == tuple(port.name for port in found.ports)


def test_mtu_of_cumulus(cumulus):
    small = {"swp16": {"link": {"mtu": 1500, "oper-status": "up"}}}
    found = cumulus.write("nv_show_interface.json", small).judge()
    assert sentences(found, WRONG) == [
        "the MTU is 1,500, expected at least 4,192 (usual for RoCE; read: nv show interface)"
    ]


def test_real_wrong_switches(tmp_path):
    lossy = SavedAnswers(tmp_path, "cumulus-lossy-multi-tc").judge()
    assert [each.partition(",")[0] for each in sentences(lossy, WRONG)] == [
        "PFC is off", "DSCP 26 (RoCE data) has class 4",
    ]  # fmt: skip
    plain = SavedAnswers(tmp_path, "cumulus-no-roce").judge()
    assert [each.partition(",")[0] for each in sentences(plain, WRONG)] == [
        "PFC is off", "the port does not trust DSCP", "ECN is off for queue 3",
    ]  # fmt: skip
    storage = SavedAnswers(tmp_path, "arista-7050").judge()
    assert [each.partition(",")[0] for each in sentences(storage, WRONG)] == [
        "ECN is off for all queues"
    ]


def test_site_wants_exactly_its_priorities(sonic):
    assert sentences(sonic.judge(), NOTE)[0].startswith("PFC is on for priorities 3 and 4; ")
    (wrong,) = sentences(sonic.judge(SITE), WRONG)
    assert wrong == (
        "PFC is on for priorities 3 and 4, expected priority 3"
        " (roce_qos_pfc_priorities; read: CONFIG_DB PORT_QOS_MAP)"
    )


def test_lossy_site_wants_no_pfc(cumulus):
    lossy = replace(SITE, pfc=frozenset())
    (wrong,) = sentences(cumulus.judge(lossy), WRONG)
    assert wrong.startswith("PFC is on for priority 3, expected none (roce_qos_pfc_priorities;")


def test_site_without_ecn_wants_none(cumulus):
    found = cumulus.alter(("  enabled-tc        0,3  ", "  enabled-tc        0    "))
    assert sentences(found.judge(replace(SITE, ecn=False)), WRONG) == []


def test_cnps_in_another_class_are_wrong_by_a_site_alone(tmp_path):
    saved = SavedAnswers(tmp_path, "sonic-guide")
    assert "DSCP 48 (CNPs) has class 0; priority 6 is usual" in sentences(saved.judge(), NOTE)
    assert sentences(saved.judge(SITE), WRONG) == [
        "DSCP 48 (CNPs) has class 0, expected priority 6"
        " (roce_qos_dscp_priorities; read: CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP)"
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
        "the class of DSCP 26 (RoCE data)", "the class of DSCP 48 (CNPs)",
        "ECN of the queue of RoCE data",
    ]  # fmt: skip
    assert short.not_read == (SwitchFact.BUFFERS, SwitchFact.WEIGHTS, SwitchFact.DROPS)
    cut = arista.alter(("end\n", "")).judge()
    assert cut.verdict is SwitchVerdict.UNKNOWN
    assert sentences(cut, UNKNOWN) == ["not read: running-config.txt is cut: it has no `end`"]


@pytest.mark.parametrize(
    ("ports", "names", "why"),
    [
        ([("a", "to gpu001 rail 0", True, 400), ("b", "", True, 400), ("c", "", True, 100)],
         ["a", "b"], "those that name a node, and those of 400 Gb/s"),
        ([("a", "GPU001:ens1", False, 100), ("b", "gpu0011", True, 100)],
         ["a"], "those that name a node"),
        ([("a", "", None, 400), ("b", "", False, 400), ("c", "", True, 100)],
         ["a"], "those of 400 Gb/s that are not down"),
        ([("a", "", True, None), ("b", "", False, None)], ["a"], "those that are not down"),
    ],
)  # fmt: skip
def test_ports_of_the_rails(ports, names, why):
    wanted = replace(SITE, nodes=frozenset({"gpu001"}), link_gbps=400)
    made = [
        SwitchPort(name, description=text, is_up=is_up, speed_gbps=gbps)
        for name, text, is_up, gbps in ports
    ]
    chosen, reason = choose_ports(made, wanted)
    assert [port.name for port in chosen] == names
    assert reason.startswith(why)


def test_neighbours_of_each_system_name_nodes(sonic, cumulus, arista):
    sonic.write(
        "lldp.txt",
        """\
Capability codes: (R) Router, (B) Bridge, (O) Other
LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr
-----------  --------------  --------------  ------------  -----------------
Ethernet8    n1.example      ens1            O             ens1
eth0         n2              ens9            O
""",
    )
    cumulus.write(
        "nv_show_interface.txt",
        """\
Interface  Admin Status  Oper Status  Speed  MTU   Type      Remote Host  Remote Port  Summary
---------  ------------  -----------  -----  ----  --------  -----------  -----------  -------
swp16      up            up           400G   9216  swp       n1           ens1
""",
    )
    arista.write(
        "lldp.json",
        {
            "lldpNeighbors": [
                {
                    "neighborDevice": "n1",
                    "neighborPort": "ens1",
                    "port": "Ethernet2/5/5",
                    "ttl": 120,
                }
            ]
        },
    )
    (cumulus.path / "nv_show_interface.json").unlink()
    wanted = replace(SITE, nodes=frozenset({"n1", "n2"}))
    for saved, port in ((sonic, "Ethernet8"), (cumulus, "swp16"), (arista, "Ethernet2/5/5")):
        found = saved.judge(wanted)
        assert ([each.name for each in found.ports], found.chosen) == (
            [port],
            "those that name a node",
        )
        assert found.reading.not_read == ()
        assert nodes_without_port([found], wanted) == ["n2"]


def test_exceptions_of_the_switch_are_not_verified(cumulus):
    listed = ("Exception List\n=================\nNo Data", "Exception List\n====\n  swp3  pfc")
    found = cumulus.alter(listed).judge()
    assert found.verdict is SwitchVerdict.UNKNOWN
    assert sentences(found, UNKNOWN)[0].startswith("not read: `nv show qos roce` lists exceptions")


def test_switch_whose_ports_are_all_down_is_not_right(sonic):
    found = sonic.alter(('"admin_status": "up"', '"admin_status": "down"')).judge()
    assert (found.ports, found.verdict) == ((), SwitchVerdict.UNKNOWN)


def site(tmp_path, **files):
    return load_site(write(tmp_path / "site", {**GOOD, **files}))


def test_what_a_site_wants(tmp_path):
    found = wanted_of(site(tmp_path))
    assert found.pfc == frozenset({3})
    assert (found.roce_dscp, found.roce_priority) == (26, 3)
    assert (found.cnp_dscp, found.cnp_priority, found.mtu_bytes) == (48, 6, 9000)
    assert found.nodes == frozenset({"n1", "n2"})
    assert (found.link_gbps, found.ecn) == (400, True)
    assert found.source(SwitchFact.PFC) == "roce_qos_pfc_priorities"


def test_nodes_that_differ_are_refused(tmp_path):
    hosts = "nodes:\n  hosts:\n    n1: {unit: 1}\n    n2: {unit: 2, fabric_roce_dscp: 24}\n"
    with pytest.raises(UsageError, match="nodes differ in fabric_roce_dscp: 24, 26"):
        wanted_of(site(tmp_path, **{"hosts.yml": hosts}))


def test_infiniband_has_no_such_switch(tmp_path):
    text = GOOD["group_vars/all.yml"].replace("kind: roce", "kind: infiniband")
    with pytest.raises(UsageError, match="no node has RoCE"):
        wanted_of(site(tmp_path, **{"group_vars/all.yml": text}))
