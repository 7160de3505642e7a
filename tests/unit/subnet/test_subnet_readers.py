"""The readers of infiniband-diags, on what real fabrics of several vendors printed."""

from tests.unit.helpers.subnet_texts import FIXTURES, HEALTHY

from rdmaprov.subnet.fabric import build
from rdmaprov.subnet.model import NO_PORT, Kind
from rdmaprov.subnet.names import natural, place
from rdmaprov.subnet.read_discovery import read_discovery
from rdmaprov.subnet.read_states import (
    read_counters,
    read_errors,
    read_managers,
    read_states,
    read_tables,
)


def real(name):
    return (FIXTURES / "real" / name).read_text().splitlines(keepends=True)


def test_edr_fabric_with_a_cable_at_ddr():
    discovery = read_discovery(real("switchib-edr.txt"))
    trunks = [each for each in discovery.cables if each.far.kind is Kind.SWITCH]
    assert [each.near.port for each in trunks if each.speed == "DDR"] == [11]
    assert {each.gbps for each in trunks} == {20, 100}
    fabric = build(discovery)
    assert len(fabric.hops) == 12
    assert {hca.at.host for hca in fabric.hcas} == {"gpu045", "node047", "node045", "gpu004"}
    assert [fabric.label(each) for each in range(2)] == [
        "SwitchIB Mellanox Technologies 0xec0d9a0300ec8200",
        "SwitchIB Mellanox Technologies 0xec0d9a0300ec8480",
    ]


def test_voltaire_with_hcas_of_three_vendors():
    ends = {cable.far.name: cable for cable in read_discovery(real("voltaire-4036-qdr.txt")).cables}
    assert {place(name).host for name in ends} == {"larissa", "triton", "telesto", "skoll"}
    assert ends["larissa HCA-1"].near.name == "Voltaire 4036 # v4036"
    telesto = ends["telesto HCA-1"]
    assert (telesto.far.guid, telesto.far.lid, telesto.gbps) == (0x1E0BFFFF4CAFC1, 3, 20)


def test_infiniscale_3_prints_no_rates():
    cables = read_discovery(real("infiniscale3-ddr.txt")).cables
    assert [cable.near.port for cable in cables] == [24, 23, 22, 20, 19, 18]
    assert {cable.gbps for cable in cables} == {0}


def test_aggregation_node_is_no_hca_of_a_host():
    fabric = build(read_discovery(real("qm8700-sharp.txt")))
    assert [hca.end.name for hca in fabric.hcas] == ["H_32000 HCA-1 (Mellanox HCA)"]
    assert {fabric.switches[at].guid for at in fabric.aggregating} == {0x0002C90000020CFC}


def test_router_port_of_an_xdr_switch():
    (cable,) = read_discovery(real("q3400-router-xdr.txt")).cables
    assert (cable.near.kind, cable.near.lid, cable.far.port) == (Kind.ROUTER, 9, 149)
    assert (cable.rate(), cable.gbps) == ("1x XDR", 200)


def test_blocks_of_iblinkinfo():
    states, is_cut = read_states(real("iblinkinfo-infiniscale4.txt"))
    assert not is_cut
    assert [(each.guid, each.port, each.state) for each in states] == [
        (0x0002C903000D7AAD, 1, "Active"),
        (0x0002C9020046C588, 1, "Active"),
        (0x0002C9020046C588, 2, "Active"),
        (0x0002C9020046C588, 5, "Down"),
    ]


def test_fdr10_of_iblinkinfo():
    states, _ = read_states(real("iblinkinfo-is5200-fdr10.txt"))
    assert [each.lane_gbps for each in states] == [10, 5, 10]
    assert states[1].peer == "Voltaire 4036E IO ib0gw-a2-001-m"


def test_line_of_iblinkinfo():
    (state,), _ = read_states(real("iblinkinfo-sx6036-fdr.txt"))
    assert (state.guid, state.name, state.port) == (0xF452140300F55051, "ib-test-7 mlx4_0", 1)
    assert (state.width, state.lane_gbps) == (4, 14.0625)


def test_errors_of_a_bull_switch():
    readings, is_whole = read_errors(real("ibqueryerrors-bc36.txt"))
    assert is_whole
    assert [(each.name, each.port) for each in readings] == [
        ("c015 HCA-1", 1),
        ("BC36-Port QDR IB Switch", 17),
        ("BC36-Port QDR IB Switch", 29),
        ("BC36-Port QDR IB Switch", 31),
    ]
    assert readings[3].counters == {"PortRcvSwitchRelayErrors": 2, "PortXmitDiscards": 1}


def test_table_without_its_end_is_not_whole():
    (table,) = read_tables(real("dump_fts-sx6036.txt")).values()
    assert table.name == "MF0;sw-ib-c2f14-14-01:SX6036/U1"
    assert (table.ports[3], table.ports[4], table.is_whole) == (24, NO_PORT, False)


def test_manager_of_a_sun_switch():
    (manager,), _ = read_managers(real("sminfo-sun-dcs.txt"))
    assert (manager.lid, manager.guid, manager.state) == (15, 0x10E0406D5AA0A0, "MASTER")


def test_counters_of_perfquery():
    readings = read_counters((HEALTHY / "perfquery/ports.txt").read_text().splitlines(True))
    assert [(each.lid, each.port) for each in readings] == [(2, 1), (2, 9), (3, 1), (3, 9)]
    assert {each.counters["SymbolErrorCounter"] for each in readings} == {0}


def test_names_sort_by_their_numbers():
    assert sorted(["node10", "node9", "a2b", "a10b"], key=natural) == [
        "a2b",
        "a10b",
        "node9",
        "node10",
    ]


def test_managers_of_ibdiagnet():
    (manager,), failed = read_managers(real("ibdiagnet-sm-mqm8700.txt"))
    assert (manager.lid, manager.guid) == (4, 0x08C0EB0300F6FC26)
    assert (manager.state, manager.priority, failed) == ("MASTER", 15, "")
