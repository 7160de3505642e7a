"""What readers make of real answers of SONiC, and of any terminal."""

import json

import pytest
from tests.unit.helpers.switch_answers import FIXTURES, SavedAnswers

from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare, SwitchSystem
from rdmaprov.switches.saved import split_answers
from rdmaprov.switches.tables import text_tables


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
        ('"profile": "ing', '"profile": "[BUFFER_PROFILE|ing'),
        ('_profile"}', '_profile]"}'),
    )
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


def test_terminal_with_several_commands_is_several_answers():
    text = "admin@leaf01:~$ show pfc counters\na\nb\nleaf01#show interfaces | json\n{}\n"
    found = split_answers("x.txt", text, print)
    assert [(each.command, each.text.strip()) for each in found] == [
        ("show pfc counters", "a\nb"),
        ("show interfaces | json", "{}"),
    ]


def test_table_with_wide_cells_and_a_title():
    (table,) = text_tables("x\n====\n     a  b\n    --  --\n    1   long cell\n\nNo Data\n")
    assert (table.title, table.columns, table.rows) == ("x", ("a", "b"), (("1", "long cell"),))
