"""Switches judged by a site: what it wants, the ports of its rails, and the nodes behind them."""

from dataclasses import replace

import pytest
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.switch_answers import NOTE, WRONG, SavedAnswers, right_switch, sentences

from rdmaprov.errors import UsageError
from rdmaprov.inventory import load_site
from rdmaprov.switches.judge import choose_ports, nodes_without_port
from rdmaprov.switches.model import SwitchFact, SwitchPort
from rdmaprov.switches.wanted import usual_settings, wanted_of

SITE = replace(usual_settings(), is_site=True, mtu_bytes=9000)


def test_site_wants_exactly_its_priorities(tmp_path):
    sonic = right_switch(tmp_path, "sonic")
    assert sentences(sonic.judge(), NOTE)[0].startswith("PFC is on for priorities 3 and 4; ")
    (wrong,) = sentences(sonic.judge(SITE), WRONG)
    assert wrong == (
        "PFC is on for priorities 3 and 4, expected priority 3"
        " (roce_qos_pfc_priorities; read: CONFIG_DB PORT_QOS_MAP)"
    )


def test_lossy_site_wants_no_pfc(tmp_path):
    cumulus = right_switch(tmp_path, "cumulus")
    (wrong,) = sentences(cumulus.judge(replace(SITE, pfc=frozenset())), WRONG)
    assert wrong.startswith("PFC is on for priority 3, expected none (roce_qos_pfc_priorities;")


def test_site_without_ecn_wants_none(tmp_path):
    cumulus = right_switch(tmp_path, "cumulus")
    found = cumulus.alter(("  enabled-tc        0,3  ", "  enabled-tc        0    "))
    assert sentences(found.judge(replace(SITE, ecn=False)), WRONG) == []


def test_cnps_in_another_class_are_wrong_by_a_site_alone(tmp_path):
    saved = SavedAnswers(tmp_path, "sonic-guide")
    assert "DSCP 48 (CNPs) has class 0; priority 6 is usual" in sentences(saved.judge(), NOTE)
    assert sentences(saved.judge(SITE), WRONG) == [
        "DSCP 48 (CNPs) has class 0, expected priority 6"
        " (roce_qos_dscp_priorities; read: CONFIG_DB DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP)"
    ]


@pytest.mark.parametrize(("ports", "names", "why"), cases(__file__, "ports_of_the_rails"))
def test_ports_of_the_rails(ports, names, why):
    wanted = replace(SITE, nodes=frozenset({"gpu001"}), link_gbps=400)
    made = [
        SwitchPort(name, description=text, is_up=is_up, speed_gbps=gbps)
        for name, text, is_up, gbps in ports
    ]
    chosen, reason = choose_ports(made, wanted)
    assert [port.name for port in chosen] == names
    assert reason.startswith(why)


def test_neighbours_of_each_system_name_nodes(tmp_path):
    systems = ("sonic", "cumulus", "arista")
    sonic, cumulus, arista = (right_switch(tmp_path, system) for system in systems)
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
