"""What the readers of Arista EOS and Cumulus Linux make of real answers."""

import json

import pytest
from tests.tables import cases
from tests.unit.helpers.switch_answers import EOS_MAP, LOSSLESS, SavedAnswers

from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare

INTERFACES = cases(__file__, "interfaces")


@pytest.fixture
def answers(tmp_path):
    return lambda name: SavedAnswers(tmp_path, name)


def test_arista_profile_of_a_port(answers):
    port = answers("arista-7388").port()
    assert (port.mtu_bytes, port.speed_gbps, port.trusts_dscp) == (9214, 200, True)
    assert port.pfc_rx == port.pfc_tx == LOSSLESS
    assert port.ecn == {3: EcnCurve(True, 2000, 10000, "segments", 20)}
    assert port.watchdog == PfcWatchdog(is_on=False)
    assert port.dscp_class is None  # written only by `show running-config all`


def test_arista_port_wins_over_its_profile(answers):
    saved = answers("arista-7388").alter(
        (
            "   phy link training\n   service-profile",
            "   priority-flow-control priority 3 drop\n"
            "   priority-flow-control priority 4 no-drop\n   service-profile",
        )
    )
    assert saved.port().pfc_tx == {4}


CONFIG = cases(__file__, "config")


def eos_ports(tmp_path, *lines):
    (tmp_path / "leaf").mkdir()
    saved = SavedAnswers.__new__(SavedAnswers)
    saved.path = tmp_path / "leaf"
    return saved.write("config.txt", "\n".join((*lines, CONFIG))).read().ports


def test_arista_port_has_its_channel_s_settings_and_is_unknown_without_its_profile(tmp_path):
    first, second, third, *_ = eos_ports(tmp_path)
    assert (first.mtu_bytes, first.pfc_tx, first.trusts_dscp) == (9214, LOSSLESS, True)
    assert first.dscp_class == {24: 3, 26: 3}
    assert (second.pfc_tx, second.trusts_dscp, second.ecn) == (None, None, None)
    assert (third.pfc_tx, third.dscp_class) == (LOSSLESS, None)  # no policy of a port is read


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
    port = answers("arista-7388").alter(("qos profile", f"{EOS_MAP}{lines}qos profile")).port()
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
            "congestion-mode": "ECN",
            "enabled-tc": "0,3",
            "max-threshold": "1.43 MB",
            "min-threshold": "146.48 KB",
            "probability": 100,
        },
        "pfc": {"pfc-priority": "3", "rx-enabled": "enabled", "tx-enabled": "enabled"},
        "trust": {"trust-mode": "pcp,dscp"},
        "prio-map": {
            str(n): {
                "pcp": n,
                "dscp": ",".join(map(str, range(8 * n, 8 * n + 8))),
                "switch-prio": n,
            }
            for n in range(8)
        },
        "tc-map": {
            str(n): {
                "switch-prio": n,
                "traffic-class": n if n in (3, 6) else 0,
                "scheduler-weight": "strict-priority" if n == 6 else "DWRR-50%",
            }
            for n in range(8)
        },
    }
    text = SavedAnswers(tmp_path, "cumulus-roce")
    whole = (text.path / "terminal.txt").read_text()
    of_text = text.write("terminal.txt", whole[: whole.index("RoCE pool config")] + "\n").port()
    (tmp_path / "json").mkdir()
    saved = SavedAnswers(tmp_path / "json", "cumulus-roce")
    (saved.path / "terminal.txt").unlink()
    assert saved.write("roce.json", view).port() == of_text


def test_cumulus_interfaces_and_watchdog(answers):
    saved = answers("cumulus-roce")
    saved.write(
        "nv_show_interface_-o_json.txt",
        {
            "swp16": {"link": {"mtu": 9216, "speed": "400G", "state": {"up": {}}}, "type": "swp"},
            "eth0": {"link": {"mtu": 1500}},
        },
    )
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
        "trust": "both",
        "dscp": {"26": {"switch-priority": 4}},
    }
    config["interface"]["swp1"] = {
        "link": {"mtu": 1500},
        "qos": {"pfc": {"profile": "mine"}},
        "description": "gpu001",
    }
    port = saved.write("applied.json", config).port()
    assert (port.name, port.mtu_bytes, port.description) == ("swp1", 1500, "gpu001")
    assert (port.pfc_rx, port.pfc_tx) == (LOSSLESS, frozenset())
    assert (port.class_of(26), port.class_of(48), port.trusts_dscp) == (4, 6, True)
    assert saved.write("applied.json", [{"header": {}}, {"set": config}]).port() == port


def test_cumulus_mode_of_roce_hides_its_settings(answers):
    saved = answers("cumulus-no-roce").alter(('"enable": "off"', '"enable": "on"'))
    assert saved.port().pfc_rx is None
