"""A site's plan against the subnet: what is missing, extra, swapped, on a wrong leaf, or slow."""

import re
from dataclasses import replace

import pytest
from tests.unit.helpers.subnet_texts import DISCOVERY, MANAGERS

from rdmaprov.exit_codes import ExitCode
from rdmaprov.site_subnet.judge_site import judge_site
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.site_subnet.result import findings_data, nodes_data
from rdmaprov.subnet.problem import level, unknown, word

SPINES = tuple(f"spine-{number}" for number in (1, 2, 3, 4))


def planned(*, leaf=True, device=True, nodes=16, rails=2):
    """Return the plan of the fabric of the texts; rails of a group share a leaf."""
    return SubnetPlan(
        tuple(
            PlannedRail(
                f"node{node:03d}",
                rail,
                f"mlx5_{rail}" if device else "",
                f"leaf-{group}-r{rail}" if leaf else "",
                group,
                200,
            )
            for node in range(1, nodes + 1)
            for group in ["p1" if node <= 8 else "p2"]
            for rail in range(rails)
        ),
        SPINES,
    )


def judged(texts, plan, not_read=()):
    return judge_site(plan, [texts.judge()], not_read)


def found(site):
    data = findings_data(site)
    return [(each["level"], each["kind"], each["node"], tuple(each["rails"])) for each in data]


def swap(texts, one, other):
    texts.edit(DISCOVERY, f"'{one}'", "'#'")
    texts.edit(DISCOVERY, f"'{other}'", f"'{one}'")
    texts.edit(DISCOVERY, "'#'", f"'{other}'")


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("device", [True, False])
def test_healthy_subnet_is_as_planned(texts, leaf, device):
    site = judged(texts, planned(leaf=leaf, device=device))
    assert found(site) == []
    assert site.exit_code == ExitCode.OK
    assert len(site.joined.ports) == 32
    assert {node["state"] for node in nodes_data(site).values()} == {"passed"}


def test_switches_that_cannot_reduce_are_named_where_the_site_wants_sharp(texts):
    plan, subnet = planned(), texts.judge()
    switches = range(len(subnet.fabric.switches))
    wants = replace(plan, sharp=True)
    assert found(judge_site(plan, [subnet])) == []
    (none,) = judge_site(wants, [subnet]).findings
    assert none.what.startswith("no switch has an aggregation node for SHARP")
    subnet.fabric.aggregating = frozenset(switches)
    assert found(judge_site(wants, [subnet])) == []
    subnet.fabric.aggregating = frozenset(switches[1:])
    (one,) = judge_site(wants, [subnet]).findings
    assert (one.part, word(one)) == (subnet.fabric.switches[0].name, "sharp")


def test_rail_that_is_not_there_is_named_once(texts):
    texts.gone("node003 mlx5_1")
    site = judged(texts, planned())
    assert found(site) == [("wrong", "missing", "node003", (1,))]
    assert "expected on leaf-p1-r1" in site.findings[0].what
    rails = nodes_data(site)["node003"]["rails"]
    assert [each["state"] for each in rails] == ["passed", "failed"]
    assert (rails[0]["leaf"], rails[0]["port"], rails[0]["gbps"]) == ("leaf-p1-r0", 3, 200)
    assert rails[1]["leaf"] is None


def test_node_that_is_off_is_one_finding(texts):
    texts.gone("node016 mlx5_0", "node016 mlx5_1")
    assert found(judged(texts, planned())) == [("wrong", "missing", "node016", (0, 1))]


def test_leaf_that_is_away_is_one_finding_and_all_its_rails_fail(texts):
    texts.gone(*(f"node{node:03d} mlx5_0" for node in range(1, 9)))
    texts.edit(DISCOVERY, "leaf-p1-r0", "unplanned")
    site = judged(texts, replace(planned(), spines=()))
    assert ("wrong", "missing", "", ()) in found(site)
    texts_of = [each.what for each in site.findings]
    assert "switch leaf-p1-r0 is missing, and with it rail 0 of node[001-008]" in texts_of
    states = {rail["state"] for node in nodes_data(site).values() for rail in node["rails"]}
    assert states == {"failed", "passed"}


def test_rails_of_a_node_that_are_swapped_name_each_other(texts):
    swap(texts, "node003 mlx5_0", "node003 mlx5_1")
    site = judged(texts, planned())
    kinds = [each for each in found(site) if each[1] == "cabling"]
    assert kinds == [("wrong", "cabling", "node003", (0,)), ("wrong", "cabling", "node003", (1,))]
    text = site.findings[0].what
    assert text.startswith("on leaf-p1-r1 port 3, expected on leaf-p1-r0")
    assert text.endswith("swapped with node003 rail 1")


@pytest.mark.parametrize("leaf", [True, False])
def test_rails_of_two_nodes_that_are_swapped_are_found_by_leaf_or_group(texts, leaf):
    swap(texts, "node003 mlx5_0", "node011 mlx5_0")
    site = judged(texts, planned(leaf=leaf))
    assert [each[2:] for each in found(site)] == [("node003", (0,)), ("node011", (0,))]
    assert "swapped with node011 rail 0" in site.findings[0].what


def test_plan_with_other_leaves_is_not_what_is_there(texts):
    plan = planned()
    rails = [replace(rail, leaf=rail.leaf.replace("p2", "p3")) for rail in plan.rails]
    site = judged(texts, replace(plan, rails=tuple(rails)))
    assert {each[2] for each in found(site)} == {f"node{number:03d}" for number in range(9, 17)}


def test_group_without_a_majority_is_named_with_its_switches(texts):
    plan = planned(leaf=False)
    rails = [replace(rail, group="one" if rail.index == 0 else rail.group) for rail in plan.rails]
    (finding,) = judged(texts, replace(plan, rails=tuple(rails))).findings
    assert finding.what == (
        "rail 0 of fabric_leaf one is on 2 switches:"
        " leaf-p1-r0 (node[001-008]), leaf-p2-r0 (node[009-016])"
    )


def test_slow_rail_is_judged_by_the_plan_and_named_once(texts):
    for end in (r"4x HDR( - .*'node003 mlx5_0' - )", r"4x HDR( - .* - 'node003 mlx5_0')"):
        texts.edit(DISCOVERY, end, r"1x HDR\1")
    site = judged(texts, planned())
    assert found(site) == [("wrong", "rate", "node003", (0,))]
    assert "1x HDR (50 Gb/s) to leaf-p1-r0 port 3, expected 200 Gb/s" in str(site.findings[0])


def test_all_rails_slower_than_planned_are_found_though_they_are_alike(texts):
    plan = planned()
    faster = tuple(replace(rail, gbps=400) for rail in plan.rails)
    assert len(found(judged(texts, replace(plan, rails=faster)))) == 32


def test_host_that_is_not_in_the_inventory_is_extra_unless_named(texts):
    plan = planned(nodes=15)
    site = judged(texts, plan)
    assert found(site) == [("wrong", "extra", "", ())]
    assert site.findings[0].part == "node016"
    assert found(judged(texts, replace(plan, others=("NODE01?",)))) == []
    assert found(judged(texts, replace(plan, hosts=("node016.example",)))) == []
    assert found(judged(texts, replace(plan, is_whole=False))) == []


def test_device_that_is_no_rail_is_extra(texts):
    assert set(found(judged(texts, planned(rails=1)))) == {
        ("wrong", "extra", f"node{number:03d}", ()) for number in range(1, 17)
    }


def test_devices_that_do_not_fit_the_rails_are_unknown(texts):
    site = judged(texts, planned(rails=1, device=False))
    (finding,) = site.findings
    assert site.exit_code == ExitCode.UNKNOWN
    assert finding.what == (
        "rails are not known: most nodes have 2 devices in the subnet, and 1 rails;"
        " write rdma into fabric_rails"
    )


def test_rail_of_another_subnet_is_not_verified(texts):
    site = judged(texts, planned(rails=3))
    assert site.exit_code == ExitCode.UNKNOWN
    assert [each.part for each in site.findings] == ["rail 2"]
    assert nodes_data(site)["node001"]["state"] == "unknown"


def test_spines_of_another_subnet_are_not_verified(texts):
    site = judged(texts, replace(planned(rails=3), spines=(*SPINES, "spine-5", "spine-6")))
    assert site.exit_code == ExitCode.UNKNOWN
    assert "switches spine-[5-6] are not in what was read (fabric_spines)" in [
        each.what for each in site.findings
    ]


def test_spines_are_compared_with_the_plan(texts):
    plan = replace(planned(), spines=("spine-1", "spine-2", "spine-3", "spine-5"))
    names = [(word(each), each.part) for each in judged(texts, plan).findings]
    assert names == [("missing", "spine-5"), ("extra", "spine-4")]


def test_hcas_without_a_host_name_leave_missing_rails_unknown(texts):
    texts.edit(DISCOVERY, "node003 mlx5_1", "MT4123 ConnectX6 Mellanox Technologies")
    site = judged(texts, planned())
    assert "wrong" not in {each[0] for each in found(site)}
    assert any(
        "have no host name" in str(each) or "has no host name" in str(each)
        for each in site.findings
    )
    assert site.exit_code == ExitCode.UNKNOWN


def test_errors_at_the_leaf_name_the_rail_behind_it(texts):
    texts.edit(
        "ibqueryerrors.txt",
        r"\A",
        ('Errors for "leaf-p1-r0"\n   GUID 0x200000 port 3: [SymbolErrorCounter == 1234]\n'),
    )
    assert found(judged(texts, planned())) == [("wrong", "errors", "node003", (0,))]


def test_what_no_tool_told_is_never_healthy(texts):
    site = judged(texts, planned(), [unknown("dump_fts", "dump_fts is not installed")])
    assert site.exit_code == ExitCode.UNKNOWN


def test_nothing_that_was_read_is_unknown():
    site = judge_site(planned(), [], [unknown("n1", "no access")])
    assert site.exit_code == ExitCode.UNKNOWN
    assert found(site) == [("unknown", "not verified", "", ())]
    assert {node["state"] for node in nodes_data(site).values()} == {"unknown"}


def test_names_are_compared_without_domain_and_case(texts):
    plan = planned()
    rails = tuple(replace(rail, node=f"{rail.node.upper()}.example") for rail in plan.rails)
    assert found(judged(texts, replace(plan, rails=rails))) == []


def with_managers(texts, *managers, known=True):
    lines = []
    for name, priority, state in managers:
        found = re.search(rf"CA +(\d+) +1 (0x[0-9a-f]+) .*'{name}'", texts.read(DISCOVERY))
        lid, guid = (found[1], found[2]) if found else ("99", "0x248a070300f0f0f0")
        lines.append(
            f"sminfo: sm lid {lid} sm guid {guid}, activity count 9 priority {priority} state"
            f" 3 SMINFO_{state}\n"
        )
    texts.write(MANAGERS, "".join(lines))
    if known:
        texts.write("saquery-smir.txt", "\t\tLID...................1\n")
    else:
        (texts.directory / "saquery-smir.txt").unlink()


def managed(*hosts, beside=()):
    return replace(planned(), managers=hosts, beside=frozenset(beside))


def said(site):
    return [(level(each), each.node, each.what) for each in site.findings]


def test_managers_of_the_site_are_as_planned(texts):
    with_managers(texts, ("node001 mlx5_0", 14, "MASTER"), ("node002 mlx5_0", 13, "STANDBY"))
    assert said(judged(texts, managed("node001", "node002"))) == []


def test_site_without_managers_accepts_any_master(texts):
    with_managers(texts, ("sw-1", 3, "MASTER"))
    assert said(judged(texts, planned())) == []


def test_master_that_is_not_the_first_is_named_with_the_one_that_should_be(texts):
    with_managers(texts, ("node002 mlx5_0", 13, "MASTER"))
    ((level, node, text),) = said(judged(texts, managed("node001", "node002")))
    assert (level, node) == ("wrong", "node001")
    assert text.startswith("it is not the master: node002 is (priority 13)")


def test_standby_that_does_not_answer_is_named(texts):
    with_managers(texts, ("node001 mlx5_0", 14, "MASTER"))
    plan = managed("node001", "node002")
    assert said(judged(texts, plan)) == [
        ("wrong", "node002", "it is not standby: its subnet manager does not answer")
    ]
    with_managers(texts, ("node001 mlx5_0", 14, "MASTER"), known=False)
    ((level, node, _),) = said(judged(texts, plan))
    assert (level, node) == ("unknown", "node002")


@pytest.mark.parametrize("state", ["MASTER", "STANDBY"])
def test_manager_of_nobody_is_wrong_unless_the_site_names_it(texts, state):
    own = "STANDBY" if state == "MASTER" else "MASTER"
    with_managers(texts, ("node001 mlx5_0", 14, own), ("ufm-1", 15, state))
    site = judged(texts, managed("node001"))
    assert [(word(each), each.part) for each in site.findings] == [
        ("manager", "the port of LID 99")
    ]
    assert "GUID 0x248a070300f0f0f0) that is not the site's" in site.findings[0].what
    assert said(judged(texts, managed("node001", beside=[0x248A070300F0F0F0]))) == []
