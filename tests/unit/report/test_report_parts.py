"""The page's pure parts: what is alike is said once, odd ones come first."""

import sys

import pytest
from tests.report import gate_runs, runs
from tests.tables import cases

from rdmaprov.report import of_accept, of_apply, of_validate
from rdmaprov.report.issues import (
    ALL,
    Message,
    Scope,
    grid,
    group_messages,
    group_skips,
    widen_remedy,
)
from rdmaprov.report.model import Cell, Tone
from rdmaprov.runs.groups import name_masker
from rdmaprov.words import duration

FLEET = runs.names(20)
SITE = Scope("inventory/prod", None, FLEET)
GOOD, WRONG, LOST = (Cell(tone, "", tone) for tone in (Tone.GOOD, Tone.BAD, Tone.UNKNOWN))


def said(node, text, remedy="", tone=Tone.BAD):
    return Message(tone, "test", node, text, remedy)


@pytest.mark.parametrize(
    ("one", "other", "same"), cases(__file__, "messages_are_alike_but_for_node_and_device")
)
def test_messages_are_alike_but_for_node_and_device(one, other, same):
    assert len(group_messages([said("gpu01", one), said("gpu02", other)], SITE)) == (
        1 if same else 2
    )


def test_failures_come_before_what_is_not_known_and_the_commonest_first():
    found = group_messages(
        [
            said("gpu01", "lost", tone=Tone.UNKNOWN),
            said("gpu02", "rare"),
            *(said(node, "common") for node in FLEET[3:9]),
        ],
        SITE,
    )
    assert [(each.text, each.label) for each in found] == [
        ("common", "6 nodes (gpu[04-09])"),
        ("rare", "gpu02"),
        ("lost", "gpu01"),
    ]


@pytest.mark.parametrize(
    ("nodes", "limit", "command"),
    [
        (FLEET[:1], None, "Run: rdmaprov apply s --limit gpu01 --roles mtu"),
        (FLEET[:2], None, "Run: rdmaprov apply s --limit gpu01,gpu02 --roles mtu"),
        (FLEET, None, "Run: rdmaprov apply s --roles mtu"),
        (FLEET, "a:&b", "Run: rdmaprov apply s --limit 'a:&b' --roles mtu"),
    ],
)
def test_remedy_is_for_all_nodes(nodes, limit, command):
    site = Scope("s", limit, FLEET)
    assert widen_remedy("Run: rdmaprov apply s --limit gpu01 --roles mtu", nodes, site) == command


def test_remedy_of_many_nodes_points_to_their_names():
    remedy = widen_remedy("Run: x --limit gpu01", FLEET[:9], SITE)
    assert remedy == "Run: x --limit gpu01 (for all 9 nodes, pass the names below)"
    # gpu01 is the beginning of another name here.
    other = "Run: x --limit gpu012"
    assert widen_remedy(other, FLEET[:3], SITE) == other
    assert widen_remedy("Run: reboot gpu01", FLEET[:3], SITE).endswith(
        "(likewise on the other nodes)"
    )


def test_command_quotes_what_a_shell_would_act_on():
    site = Scope("my site", "!rack1", ("a;b", "c"))
    assert site.command("apply", ["a;b"]) == "rdmaprov apply 'my site' --limit 'a;b'"
    assert site.command("apply", ["a;b", "c"]) == "rdmaprov apply 'my site' --limit '!rack1'"


def test_skips_with_one_reason_are_one():
    site = Scope("s", None, runs.names(1024))
    found = group_skips(
        [said(name, f"{name}: ib: PFC does not apply") for name in site.nodes], site
    )
    (skip,) = found
    assert (skip.checks, skip.label) == (1024, "1,024 nodes")


def test_grid_has_odd_nodes_first_and_those_alike_in_one_row():
    cells = dict.fromkeys(FLEET, (GOOD, GOOD))
    cells |= {"gpu03": (GOOD, WRONG), "gpu07": (LOST, GOOD), "gpu09": (WRONG, WRONG)}
    found = grid("subject", ["a", "b"], cells, (), (GOOD, Cell(Tone.NONE, "", "")))
    assert [(row.label, row.tone) for row in found.rows][:4] == [
        ("gpu09", "bad"),
        ("gpu03", "bad"),
        ("gpu07", "unknown"),
        (ALL, "good"),
    ]
    assert len(found.rows[4].nodes) == 17
    assert sorted(name for row in found.rows for name in row.nodes) == sorted(FLEET)


def test_each_failed_check_is_in_one_trouble_with_a_remedy():
    data = runs.validated(64)
    view = of_validate.view(data)
    assert all(each.remedy for each in view.issues)
    wrong = {check["node"] for check in data["checks"] if check["outcome"] != "skipped"}
    assert {node for each in view.issues for node in each.nodes} == wrong
    (row,) = [row for row in view.grid.rows if row.nodes == ("gpu02",)]
    assert {cell.tone for cell in row.cells} == {Tone.UNKNOWN, Tone.NONE}


def test_node_of_which_nothing_was_judged_is_not_known():
    data = runs.validated(2, bad=False)
    data["nodes"]["gpu2"]["subjects"] = {}
    (row,) = [row for row in of_validate.view(data).grid.rows if row.nodes == ("gpu2",)]
    assert row.tone is Tone.UNKNOWN


def test_nodes_by_roles():
    view = of_apply.view(runs.applied(4))
    place = view.grid.columns.index("limits")
    cells = {row.nodes[0]: row.cells[place] for row in view.grid.rows}
    assert {name: (cell.tone, cell.text) for name, cell in cells.items()} == {
        "gpu1": (Tone.GOOD, "1"),
        "gpu2": (Tone.UNKNOWN, ""),
        "gpu3": (Tone.BAD, ""),
        "gpu4": (Tone.UNKNOWN, ""),
    }
    assert [(each.tone, each.label) for each in view.issues] == [
        ("bad", "gpu3"),
        ("unknown", "gpu2"),
        ("unknown", "gpu4"),
        ("due", "gpu1"),
    ]
    assert view.issues[-1].remedy.endswith("--limit gpu1 --reboot if-needed")


def test_plan_that_was_refused_is_no_apply():
    view = of_apply.view({**runs.applied(2, "plan", bad=False), "verb": "apply"})
    assert (view.headline, view.changes_title) == ("Changes pending", "Pending changes")
    applied = of_apply.view(runs.applied(2, bad=False))
    assert (applied.headline, applied.changes_title) == ("All nodes match the site", "Changes made")


def test_nodes_that_a_probe_proved_are_counted():
    data = runs.applied(3, bad=False)
    assert of_apply.view(data).facts == (("roles", "all"),)
    data["nodes"]["gpu2"]["probed"] = True
    assert of_apply.view(data).facts[1:] == (("verified by the probe, without Ansible", "1 node"),)


def test_plan_names_each_setting_with_its_nodes():
    changes = {each.role: each.lines for each in of_apply.view(runs.applied(4, "plan")).changes}
    assert changes["mtu"][0] == (
        "3 nodes (gpu[1,3-4])",
        "ens1 MTU 1500 → 9000 (running, configured)",
    )
    assert changes["nccl"] == (
        ("gpu3", "waits for an earlier role: the rails' addresses, which fabric sets"),
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_mask_leaves_other_words():
    assert name_masker({"a"})("a b: a.c is not a") == "* b: a.c is not *"


@pytest.mark.parametrize("nccl", [True, False])
def test_headline_says_what_gloo_does_not_prove(nccl, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # pictures take seconds
    summary = of_accept.view(gate_runs.accepted(3, bad=False, nccl=nccl)).summary
    assert ("bandwidth and RDMA are not verified" in summary) is not nccl
