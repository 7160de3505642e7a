"""What readers make of real answers of SONiC, Cumulus Linux, Arista EOS and OpenConfig."""

from __future__ import annotations

import json

import pytest
from tests.unit.switch_answers import EOS_MAP, FIXTURES, SavedAnswers

from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare, SwitchSystem
from rdmaprov.switches.saved import split_answers
from rdmaprov.switches.tables import text_tables

LOSSLESS = frozenset({3})
INTERFACES = {
    "interfaces": {
        "Ethernet2/5/1": {
            "name": "Ethernet2/5/1", "description": "gpu001 rail 0", "mtu": 9214,
            "bandwidth": 200_000_000_000, "lineProtocolStatus": "up",
            "interfaceCounters": {"inDiscards": 3, "outDiscards": 42},
        },
        "Ethernet2/5/5": {"mtu": 1500, "bandwidth": 0, "lineProtocolStatus": "down"},
        "Management1": {"mtu": 1500, "lineProtocolStatus": "up"},
    }
}  # fmt: skip


@pytest.fixture
def answers(tmp_path):
    return lambda name: SavedAnswers(tmp_path, name)


@pytest.mark.parametrize(
    ("name", "system", "ports"),
    [
        ("sonic-guide", SwitchSystem.SONIC, ["Ethernet0", "Ethernet4"]),
        ("sonic-z9664f", SwitchSystem.SONIC, ["Ethernet0", "Ethernet8"]),
        ("cumulus-roce", SwitchSystem.CUMULUS, ["swp16"]),
        ("cumulus-lossy-multi-tc", SwitchSystem.CUMULUS, ["all-ports"]),
        ("cumulus-no-roce", SwitchSystem.CUMULUS, ["all-ports"]),
        ("arista-7388", SwitchSystem.ARISTA, ["Ethernet2/5/1", "Ethernet2/5/5"]),
        ("arista-7050", SwitchSystem.ARISTA, ["Ethernet9/1", "Ethernet10/1"]),
    ],
)
def test_system_and_ports_of_each_fixture(answers, name, system, ports):
    found = answers(name).read()
    assert (found.system, [port.name for port in found.ports]) == (system, ports)
    assert found.not_read == ()


def test_every_fixture_is_named_in_its_readme():
    text = (FIXTURES / "README.md").read_text()
    assert all(f"`{path.name}`" in text for path in FIXTURES.iterdir() if path.is_dir())


def test_sonic_config_db(answers):
    port = answers("sonic-z9664f").port()
    assert (port.mtu_bytes, port.speed_gbps, port.is_up) == (9216, 400, True)
    assert port.pfc_rx == port.pfc_tx == {3, 4}
    assert (port.class_of(26), port.class_of(48), port.queue_of(3)) == (3, 6, 3)
    assert port.ecn[3] == EcnCurve(True, 2_048_000, 12_480_000, "bytes", 15)
    assert set(port.ecn) == {3, 4}
    assert port.shares[6] == QueueShare(is_strict=True)
    assert port.watchdog == PfcWatchdog(True, "drop")
    assert port.lossless_groups is None


def test_sonic_buffers_and_pauses(answers):
    port = answers("sonic-guide").port()
    assert (port.class_group[3], port.lossless_groups) == (3, {3, 4})
    assert port.pauses_rx == dict.fromkeys(range(8), 0)
    assert port.mtu_bytes is None  # the excerpt has no PORT


def test_sonic_references_of_old_releases(answers):
    found = answers("sonic-guide").alter(
        ('"dscp_to_tc_map": "AZURE"', '"dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]"'),
        ('"wred_profile": "AZURE_LOSSLESS"', '"wred_profile": "[WRED_PROFILE|AZURE_LOSSLESS]"'),
        ('"profile": "ing', '"profile": "[BUFFER_PROFILE|ing'), ('_profile"}', '_profile]"}'),
    )  # fmt: skip
    port = found.port()
    assert (port.class_of(26), port.ecn[3].is_on, port.lossless_groups) == (3, True, {3, 4})


def test_sonic_counters(answers):
    saved = answers("sonic-z9664f")
    saved.write(
        "show_queue_counters.txt",
        "     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes\n"
        "---------  -----  --------------  ---------------  -----------  ------------\n"
        "Ethernet0    UC3            8193           852072       91,786       9545744\n",
    )
    saved.write(
        "show_pfcwd_stats.txt",
        "      QUEUE    STATUS    STORM DETECTED/RESTORED    TX OK/DROP\n"
        "-----------  --------  -------------------------  ------------\n"
        "Ethernet0:3       N/A                        2/2       100/100\n",
    )
    port = saved.port()
    assert port.drops == {"queue 3": 91786}
    assert port.watchdog == PfcWatchdog(True, "drop", 2)


def test_sonic_asymmetric_pfc_receives_on_all_priorities(answers):
    port = answers("sonic-z9664f").alter(('"fec": "rs"', '"pfc_asym": "on"')).port()
    assert (port.pfc_rx, port.pfc_tx) == (frozenset(range(8)), {3, 4})


def test_sonic_port_without_entry_has_everything_off(answers):
    saved = answers("sonic-z9664f")
    config = json.loads((saved.path / "config_db.json").read_text())
    for table in ("PORT_QOS_MAP", "QUEUE", "PFC_WD"):
        del config[table]
    port = saved.write("config_db.json", config).port()
    assert (port.pfc_rx, port.trusts_dscp, port.ecn) == (frozenset(), False, {})
    assert port.watchdog == PfcWatchdog(is_on=False)


def test_cumulus_port_says_more_than_the_switch(answers):
    port = answers("cumulus-roce").port()
    assert port.pfc_rx == port.pfc_tx == LOSSLESS
    assert port.dscp_class == {26: 3, 48: 6}
    assert port.ecn[3] == EcnCurve(True, 156_672, 1_499_463, "bytes", 100)
    assert port.shares == {3: QueueShare(False, 50), 6: QueueShare(True)}
    assert port.lossless_groups == LOSSLESS
    assert port.drops == {"rx RoCE": 0, "tx RoCE": 663_060_754_115}


def test_cumulus_json_says_the_same_as_the_text(tmp_path):
    view = {
        "mode": "lossless",
        "congestion-control": {
            "congestion-mode": "ECN", "enabled-tc": "0,3", "max-threshold": "1.43 MB",
            "min-threshold": "146.48 KB", "probability": 100,
        },
        "pfc": {"pfc-priority": "3", "rx-enabled": "enabled", "tx-enabled": "enabled"},
        "trust": {"trust-mode": "pcp,dscp"},
        "prio-map": {
            str(n): {"pcp": n, "dscp": ",".join(map(str, range(8 * n, 8 * n + 8))),
                     "switch-prio": n} for n in range(8)
        },
        "tc-map": {
            str(n): {"switch-prio": n, "traffic-class": n if n in (3, 6) else 0,
                     "scheduler-weight": "strict-priority" if n == 6 else "DWRR-50%"}
            for n in range(8)
        },
    }  # fmt: skip
    text = SavedAnswers(tmp_path, "cumulus-roce")
    whole = (text.path / "terminal.txt").read_text()
    part = whole[: whole.index("RoCE pool config")] + "\n"
    of_text = text.write("terminal.txt", part).port()
    (tmp_path / "json").mkdir()
    saved = SavedAnswers(tmp_path / "json", "cumulus-roce")
    (saved.path / "terminal.txt").unlink()
    assert saved.write("roce.json", view).port() == of_text


def test_cumulus_interfaces_and_watchdog(answers):
    saved = answers("cumulus-roce")
    saved.write(
        "nv_show_interface_-o_json.txt",
        {"swp16": {"link": {"mtu": 9216, "speed": "400G", "state": {"up": {}}}, "type": "swp"},
         "eth0": {"link": {"mtu": 1500}}},
    )  # fmt: skip
    saved.write(
        "nv_show_interface_swp16_qos_pfc-watchdog.txt",
        "                 operational  applied \n---------------  -----------  ------- \n"
        "state            enabled      enabled \n\nPFC WD Status \n=========================== \n"
        "    traffic-class  status    deadlock-count \n    -------------  --------  --------------"
        " \n\n    2              DEADLOCK  2  \n    3              OK        1 \n",
    )
    (port,) = saved.read().ports
    assert (port.mtu_bytes, port.speed_gbps, port.is_up) == (9216, 400, True)
    assert port.watchdog == PfcWatchdog(is_on=True, storms=3)


def test_cumulus_profiles_of_a_configuration(answers):
    saved = answers("cumulus-no-roce")
    config = json.loads((saved.path / "applied.json").read_text())
    assert saved.port().pfc_rx == frozenset()
    config["qos"]["pfc"] = {"mine": {"switch-priority": {"3": {}}, "rx": "enable", "tx": "disable"}}
    config["qos"]["mapping"]["default-global"] = {
        "trust": "both", "dscp": {"26": {"switch-priority": 4}},
    }  # fmt: skip
    config["interface"]["swp1"] = {
        "link": {"mtu": 1500}, "qos": {"pfc": {"profile": "mine"}}, "description": "gpu001",
    }  # fmt: skip
    port = saved.write("applied.json", config).port()
    assert (port.name, port.mtu_bytes, port.description) == ("swp1", 1500, "gpu001")
    assert (port.pfc_rx, port.pfc_tx) == (LOSSLESS, frozenset())
    assert (port.class_of(26), port.class_of(48), port.trusts_dscp) == (4, 6, True)
    wrapped = [{"header": {}}, {"set": config}]
    assert saved.write("applied.json", wrapped).port() == port


def test_cumulus_mode_of_roce_hides_its_settings(answers):
    saved = answers("cumulus-no-roce").alter(('"enable": "off"', '"enable": "on"'))
    assert saved.port().pfc_rx is None


def test_arista_profile_of_a_port(answers):
    port = answers("arista-7388").port()
    assert (port.mtu_bytes, port.speed_gbps, port.trusts_dscp) == (9214, 200, True)
    assert port.pfc_rx == port.pfc_tx == LOSSLESS
    assert port.ecn == {3: EcnCurve(True, 2000, 10000, "segments", 20)}
    assert port.watchdog == PfcWatchdog(is_on=False)
    assert port.dscp_class is None  # written only by `show running-config all`


def test_arista_port_wins_over_its_profile(answers):
    saved = answers("arista-7388").alter(
        ("   phy link training\n   service-profile", "   priority-flow-control priority 3 drop\n"
         "   priority-flow-control priority 4 no-drop\n   service-profile"),
    )  # fmt: skip
    assert saved.port().pfc_tx == {4}


CONFIG = """\
qos map dscp 24 26 to traffic-class 3 drop-precedence 1
qos profile ROCE
   qos trust dscp
   priority-flow-control mode on
   priority-flow-control priority 3 no-drop
interface Port-Channel7
   mtu 9214
   service-profile ROCE
interface Ethernet1
   channel-group 7 mode active
interface Ethernet2
   service-profile GONE
interface Ethernet3
   service-profile ROCE
   service-policy type qos input CLASSIFY
end
"""


def eos_ports(tmp_path, *lines):
    (tmp_path / "leaf").mkdir()
    saved = SavedAnswers.__new__(SavedAnswers)
    saved.path = tmp_path / "leaf"
    return saved.write("config.txt", "\n".join((*lines, CONFIG))).read().ports


def test_arista_port_of_a_channel_has_its_settings(tmp_path):
    first = eos_ports(tmp_path)[0]
    assert (first.mtu_bytes, first.pfc_tx, first.trusts_dscp) == (9214, LOSSLESS, True)
    assert first.dscp_class == {24: 3, 26: 3}


def test_arista_profile_that_is_missing_leaves_the_port_unknown(tmp_path):
    second = eos_ports(tmp_path)[1]
    assert (second.pfc_tx, second.trusts_dscp, second.ecn) == (None, None, None)


def test_arista_policy_of_a_port_is_not_read(tmp_path):
    third = eos_ports(tmp_path)[2]
    assert (third.pfc_tx, third.dscp_class) == (LOSSLESS, None)


def test_arista_settings_of_the_whole_switch(tmp_path):
    first = eos_ports(
        tmp_path,
        "priority-flow-control all off",
        "priority-flow-control pause watchdog default timeout 0.00",
        "qos random-detect ecn global-buffer minimum-threshold 1 mbytes maximum-threshold 2 mbytes",
    )[0]
    assert (first.pfc_tx, first.watchdog, first.ecn) == (frozenset(), PfcWatchdog(False), None)


def test_arista_maps_and_watchdog(answers):
    lines = "priority-flow-control pause watchdog default timeout 0.20\n" + (
        "priority-flow-control pause watchdog action drop\nqos map traffic-class 3 to tx-queue 4\n"
    )
    saved = answers("arista-7388").alter(("qos profile", f"{EOS_MAP}{lines}qos profile"))
    port = saved.port()
    assert (port.class_of(26), port.class_of(48), port.queue_of(3)) == (3, 6, 4)
    assert port.watchdog == PfcWatchdog(True, "drop")


def test_arista_json_of_the_configuration_says_the_same(answers):
    saved = answers("arista-7388")
    text = (saved.path / "running-config.txt").read_text().replace("qos prof", f"{EOS_MAP}qos prof")
    before = saved.write("running-config.txt", text).read()

    def section(lines, indent):
        found: dict[str, object] = {}
        last = ""
        while lines:
            depth = len(lines[0]) - len(lines[0].lstrip())
            if depth < indent:
                break
            if depth > indent:
                found[last] = {"cmds": section(lines, depth)}
            else:
                last = lines.pop(0).strip()
                found[last] = None
        return found

    lines = [line for line in text.splitlines() if line.strip() not in ("!", "end", "")]
    saved.write("running-config.txt", {"cmds": section(lines, 0)})
    assert saved.read().ports == before.ports


def test_arista_interfaces_and_storms(answers):
    saved = answers("arista-7388").write("interfaces.json", INTERFACES)
    storms = {"interfaces": {"Ethernet2/5/1": {"txQueues": {"3": {"stuckCount": 2}}}}}
    first, second = saved.write("storms.json", storms).read().ports
    assert (first.is_up, first.speed_gbps, first.drops) == (True, 200, {"rx": 3, "tx": 42})
    assert (first.description, first.watchdog.storms) == ("gpu001 rail 0", 2)
    assert (second.is_up, second.mtu_bytes, second.watchdog.storms) == (False, 1500, 0)


OPENCONFIG = {
    "openconfig-interfaces:interfaces": {"interface": [{
        "name": "Ethernet0", "config": {"mtu": 1500},
        "state": {"mtu": 9100, "oper-status": "UP", "counters": {"in-discards": "7"}},
        "openconfig-if-ethernet:ethernet": {
            "state": {"port-speed": "openconfig-if-ethernet:SPEED_400GB"}},
    }]},
    "openconfig-qos:qos": {
        "queue-management-profiles": {"queue-management-profile": [{
            "name": "roce", "wred": {"uniform": {"config": {
                "min-threshold": "150000", "max-threshold": "1500000", "enable-ecn": True,
                "max-drop-probability-percent": 100}}}}]},
        "interfaces": {"interface": [{
            "interface-id": "Ethernet0",
            "openconfig-qos-ext:pfc": {"pfc-priorities": {"pfc-priority": [
                {"dot1p": 3, "config": {"dot1p": 3, "enable": True}},
                {"dot1p": 4, "config": {"dot1p": 4, "enable": False}}]}},
            "output": {"queues": {"queue": [{
                "name": "Ethernet0:3", "config": {"queue-management-profile": "roce"}}]}},
        }]},
    },
}  # fmt: skip


@pytest.mark.parametrize("is_get", [True, False])
def test_openconfig(tmp_path, is_get):
    (tmp_path / "leaf").mkdir()
    of_gnmic = [
        {"source": "leaf:8080", "updates": [{"Path": name, "values": {name: value}}]}
        for name, value in OPENCONFIG.items()
    ]
    document = of_gnmic if is_get else OPENCONFIG
    (tmp_path / "leaf" / "get.json").write_text(json.dumps(document))
    saved = SavedAnswers.__new__(SavedAnswers)
    saved.path = tmp_path / "leaf"
    found = saved.read()
    (port,) = found.ports
    assert found.system is SwitchSystem.OPENCONFIG
    assert (port.mtu_bytes, port.speed_gbps, port.is_up) == (9100, 400, True)
    assert (port.pfc_tx, port.drops) == (LOSSLESS, {"rx": 7})
    assert port.ecn == {3: EcnCurve(True, 150000, 1500000, "bytes", 100)}


def test_terminal_with_several_commands_is_several_answers():
    text = "admin@leaf01:~$ show pfc counters\na\nb\nleaf01#show interfaces | json\n{}\n"
    found = split_answers("x.txt", text, print)
    assert [(each.command, each.text.strip()) for each in found] == [
        ("show pfc counters", "a\nb"), ("show interfaces | json", "{}"),
    ]  # fmt: skip


def test_table_with_wide_cells_and_a_title():
    (table,) = text_tables("x\n====\n     a  b\n    --  --\n    1   long cell\n\nNo Data\n")
    assert (table.title, table.columns, table.rows) == ("x", ("a", "b"), (("1", "long cell"),))
