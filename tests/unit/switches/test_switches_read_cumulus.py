"""What the reader of Cumulus Linux makes of real answers."""

from __future__ import annotations

import json

import pytest
from tests.unit.helpers.switch_answers import LOSSLESS, SavedAnswers

from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare


@pytest.fixture
def answers(tmp_path):
    return lambda name: SavedAnswers(tmp_path, name)


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
