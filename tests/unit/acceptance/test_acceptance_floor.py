"""The floor of a run: published fleets, NVLink domains, the algorithm that NCCL chose."""

import pytest
from tests import published
from tests.madeup.accept import accept
from tests.madeup.logs import NO_SHARP
from tests.madeup.shape import FleetShape
from tests.tables import cases
from tests.unit.helpers.accept_runs import say
from tests.unit.helpers.nccl_jobs import Job
from tests.unit.helpers.nccl_runs import packed
from tests.unit.helpers.swept_fleets import GIB, choices, floor_of, gate_site, judge, swept

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence import judge as evidence
from rdmaprov.acceptance.ranks.nccl_logs import read_run
from rdmaprov.acceptance.ranks.plan import Task

# The gate measures all-reduces.
MEASUREMENTS = [each for each in published.measurements() if "collective" not in each.row]
NVLINK = {"ring": "RING", "tree": "TREE", "nvlstree": "NVLS_TREE", "sharp": "COLLNET_DIRECT"}


# --- published measurements ------------------------------------------------------------------


def site_of(item):
    fabric = item.fabric
    return gate_site(
        fabric.nodes,
        fabric.gpus_per_node,
        item.row.get("gpu", ""),
        fabric.nvlink_nodes,
        rails=fabric.rails,
        gbps=fabric.link_gbps,
    )


def judged(item):
    """Return what the gate finds on the fleet of a published measurement."""
    fabric, size = item.fabric, item.size_bytes
    site = site_of(item)
    said = NVLINK[item.algorithm] if item.algorithm != "auto" else ""
    return floor_of(site, swept(fabric.nodes, fabric.gpus_per_node, item.busbw, size, said))[1]


@pytest.mark.parametrize(
    "item", [item for item in MEASUREMENTS if item.healthy], ids=lambda item: item.name
)
def test_a_published_healthy_fleet_is_not_refused_by_the_gate(item):
    assert [finding for finding in judged(item) if finding.proven] == []
    assert item.size_bytes < GIB or judged(item) == []


@pytest.mark.parametrize(
    "item",
    [m for m in MEASUREMENTS if m.told_by == "floor" and m.size_bytes >= GIB],
    ids=lambda item: item.name,
)
def test_a_published_slow_fleet_is_refused_by_the_gate(item):
    [finding] = judged(item)
    assert (finding.proven, finding.level) == (True, "")  # it names nobody, so isolation follows


OTHERS = [each for each in published.measurements() if each.row.get("collective")]


def others(item):
    fabric = item.fabric
    site = site_of(item)
    name = {"alltoall": "all_to_all"}.get(fabric.collective, fabric.collective)
    size = max(GIB, item.size_bytes)
    ran = swept(fabric.nodes, fabric.gpus_per_node, item.busbw, size, collective=name)
    return fleet_floor.judge_others(site, ran)


@pytest.mark.parametrize("item", [m for m in OTHERS if m.healthy], ids=lambda item: item.name)
def test_another_collective_of_a_published_healthy_fleet_is_not_refused(item):
    assert others(item)[0] == []


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter", "all_to_all"])
def test_another_collective_at_a_tenth_is_refused_and_just_below_its_floor_noted(name):
    site, most = gate_site(16), 52.9 if name == "all_to_all" else 400.0

    def judged_at(share):
        return fleet_floor.judge_others(site, swept(16, 8, share * most, GIB, collective=name))

    assert judged_at(0.85) == ([], [])
    [finding], _ = judged_at(0.1)
    assert (finding.kind, finding.values["collective"]) == ("bandwidth.collective", name)
    found, notes = judged_at(0.6)
    assert (found, len(notes)) == ([], 1)


def test_messages_that_are_small_are_no_measurement():
    ran = swept(16, 8, 1.0, GIB // 2, collective="all_to_all")
    assert fleet_floor.judge_others(gate_site(16), ran) == ([], [])


# --- PCIe slots ------------------------------------------------------------------------------


def slotted(site, nic, gpu, cards=8, direct=False):
    def path(bridge, link):
        words = [*link, *link]
        return [
            {"address": f"0000:{bridge:02x}:01.0", "link": words},
            {"address": f"0000:{bridge + 1:02x}:00.0", "link": words},
        ]

    for node in site.nodes:
        rails = [path(2 * (rail % cards), nic) for rail in range(len(node.compute_rails))]
        gpus = [path(0x80, gpu)] * len(site.facts[node.name]["gpus"]["gpus"])
        site.facts[node.name]["slots"] = {"rails": rails, "gpus": gpus, "direct": direct}
    return site


GEN5, GEN6 = ["32.0 GT/s PCIe", "16"], ["64.0 GT/s PCIe", "16"]


@pytest.mark.parametrize(
    ("nodes", "gpus", "gpu", "rails", "busbw"),
    [(8, 4, "NVIDIA GB300", 8, 180), (2, 8, "NVIDIA B300 SXM6 AC", 16, 400)],
)
def test_two_rails_of_400g_a_gpu_need_more_than_one_slot_of_pcie_5(nodes, gpus, gpu, rails, busbw):
    run = swept(nodes, gpus, busbw, 16 * GIB)
    site = gate_site(nodes, gpus, gpu, rails=rails)
    assert [each.proven for each in floor_of(site, run)[1]] == [True]
    read = slotted(gate_site(nodes, gpus, gpu, rails=rails), GEN5, GEN6, rails // 2, direct=True)
    assert [each.proven for each in floor_of(read, run)[1]] == [True]


def test_slots_of_which_nothing_is_known_accuse_nobody():
    run = swept(8, 4, 180, 16 * GIB)
    [finding] = floor_of(gate_site(8, 4, "Something 9000", rails=8), run)[1]
    assert not finding.proven
    assert "do not show the GPUs' PCIe slots" in finding.what
    assert floor_of(gate_site(8, 4, "Something 9000", rails=8), swept(8, 4, 320, 16 * GIB))[1] == []


def test_slots_that_nodes_show_are_what_counts():
    """GPUs of PCIe 5 with two rails each; and two rails on each card of PCIe 5."""
    run = swept(8, 4, 180, 16 * GIB)
    assert floor_of(slotted(gate_site(8, 4, "Some GPU", rails=8), GEN5, GEN5), run)[1] == []
    cards = slotted(gate_site(8, 8, "Some GPU", rails=8), GEN5, GEN5, cards=4)
    judgement, found = floor_of(cards, swept(8, 8, 180, 16 * GIB))
    assert found == []
    assert judgement.floor.ceiling_gb_s == pytest.approx(230, abs=1)
    assert "4 cards" in judgement.floor.derivation
    alone = slotted(gate_site(8, 8, "Some GPU", rails=8), GEN5, GEN5)
    assert [each.proven for each in floor_of(alone, swept(8, 8, 180, 16 * GIB))[1]] == [True]


# --- inside a node, NVLink domains -----------------------------------------------------------


@pytest.mark.parametrize("alone", [0.0, 215.0], ids=["by name", "measured"])
def test_a_fleet_of_h800_is_limited_by_its_nvlink(alone):
    run = swept(16, 8, 160, 8 * GIB)
    assert floor_of(gate_site(16, gpu="NVIDIA H800"), run, alone)[1] == []
    assert floor_of(gate_site(16, gpu="NVIDIA H200"), run)[1] != []


def test_what_a_node_measured_alone_counts_before_its_gpu_s_name():
    """A node of H200 that reaches 28 GB/s alone is a finding of its own, and not the fleet's."""
    run = swept(4, 8, 24, 8 * GIB)
    assert floor_of(gate_site(4, gpu="NVIDIA H200"), run, 28.0)[1] == []


def test_one_rack_by_nvlink_and_its_rails_are_two_planes():
    rack = gate_site(18, 4, "NVIDIA GB200", racks=18, rails=4)
    assert floor_of(rack, swept(18, 4, 820, 8 * GIB))[1] == []
    rails = {name: {"NCCL_MNNVL_ENABLE": "0"} for name in (node.name for node in rack.nodes)}
    judgement, [finding] = judge(rack, swept(18, 4, 90, 8 * GIB, environment=rails))
    assert judgement.floor.ceiling_gb_s == 200
    assert finding.proven
    assert floor_of(rack, swept(18, 4, 170, 8 * GIB, environment=rails))[1] == []


def test_one_rack_whose_nvlink_is_not_known_is_not_verified():
    judgement, [finding] = floor_of(gate_site(18, 4, racks=18, rails=4), swept(18, 4, 820, 8 * GIB))
    assert (judgement, finding.proven) == (None, False)
    assert "one NVLink domain uses no rail" in finding.what


@pytest.mark.parametrize("racks", [2, 1], ids=["one NVLink domain", "no NVLink domain"])
def test_nodes_of_one_domain_may_keep_all_channels_in_it(racks):
    """To NCCL they are one node: two hosts, `nNodes 1`, and no channel through a rail."""
    site = gate_site(2, 2, racks=racks, fabric_kind="roce")
    lines, made = Job(nodes=1, gpus=4).lines(), swept(2, 2, 100, GIB)
    for name, pids in (("n0", ("100", "101")), ("n1", ("102", "103"))):
        own = [line.replace("node0:", f"{name}:") for line in lines if line.split(":")[1] in pids]
        made.nodes[name].logs = packed("\n".join([*own, ""]))
        site.facts[name]["rails"].extend([{"rdma": f"mlx5_{rail}"} for rail in range(8)])
    assert (list(evidence.judge_transports(site, read_run(made))) == []) == (racks > 1)


def taken(ran):
    row = fleet_floor.fleet_row(ran)
    assert row is not None
    return fleet_floor.taken(choices(ran), row)


def test_half_a_slot_on_two_nodes_is_found_by_the_algorithm_that_ran():
    """0.94 of a ring's ceiling by NVLSTree, whose healthy fleets reach 1.17."""
    site, half = gate_site(2, gpu="NVIDIA H100 80GB HBM3"), 0.94 * 400
    assert floor_of(site, swept(2, 8, half, 8 * GIB))[1] == []
    judgement, [finding] = judge(site, swept(2, 8, half, 8 * GIB, "NVLS_TREE"))
    assert judgement.floor.algorithm == "nvlstree"
    assert "half its width" in finding.remedy
    assert floor_of(site, swept(2, 8, 466, 8 * GIB, "NVLS_TREE"))[1] == []


def test_a_healthy_ring_of_many_nodes_passes_by_its_algorithm():
    site = gate_site(128)
    assert floor_of(site, swept(128, 8, 230, 8 * GIB, "RING"))[1] == []
    assert floor_of(site, swept(128, 8, 230, 8 * GIB, "TREE"))[1] != []


def test_an_unknown_algorithm_is_said():
    judgement, found = judge(gate_site(16), swept(16, 8, 330, 8 * GIB))
    assert found == []
    assert any("The algorithm is not known" in note for note in judgement.notes)
    known, _ = judge(gate_site(16), swept(16, 8, 330, 8 * GIB, "RING"))
    assert not any("not known" in note for note in known.notes)


@pytest.mark.parametrize("said", ["PAT", "SOMETHING_NEW"])
def test_an_algorithm_that_the_floor_does_not_have_is_unknown(said):
    assert taken(swept(2, 8, 380, 8 * GIB, said)) == "auto"


def test_a_log_that_is_no_archive_leaves_the_algorithm_unknown():
    ran = swept(2, 8, 380, 8 * GIB)
    ran.nodes["n0"].logs = b"\x00not an archive Bytes -> "
    assert taken(ran) == "auto"


def test_a_group_s_row_is_not_the_fleet_s():
    ran = swept(2, 8, 380, 8 * GIB)
    ran.tasks[1] = Task(1, "groups", "all rails", (tuple(range(8)),), sizes=(16 * GIB,))
    for rank in range(8):
        at = {"plane": "all rails", "task": 1, "group": 0, "in_place": True, "dtype": "float32"}
        say(ran, rank, "row", **at, bytes=16 * GIB, count=5, median_us=1.0, p99_us=1.0, min_us=1.0)
    row = fleet_floor.fleet_row(ran)
    assert row is not None
    assert row.bytes == 8 * GIB


def shape(sharp: str) -> FleetShape:
    return FleetShape(4, kind="infiniband", per_leaf=2, sharp=sharp)


def gate(sharp: str):
    return accept(shape(sharp), stages=("preflight", "host", "fleet")).result


def test_used_is_accepted_and_proven_by_number_and_compared():
    result = gate("used")
    assert result.verdict == "accepted", result.findings
    notes = [each for each in result.notes if each.startswith("SHARP:")]
    assert notes[0].startswith("SHARP: proven by number: ")
    assert "what rings and trees carry is at most 400.0 GB/s" in notes[0]
    assert notes[1].endswith("times")
    assert 1.1 < float(notes[1].split()[-2]) < 2.0


@pytest.mark.parametrize(("what", "cause"), cases(__file__, "not_used_is_refused_with_its_cause"))
def test_not_used_is_refused_with_its_cause(what: str, cause: str):
    assert what in NO_SHARP
    result = gate(what)
    (finding,) = result.findings
    assert result.verdict == "refused"
    assert finding.what.startswith("SHARP is wanted (fabric_sharp) and not used: NCCL took ")
    assert finding.remedy.startswith(f"Likely cause: {cause}")
    assert (finding.level, finding.nodes) == ("fleet", ())
    if what == "no manager":
        assert "SHARP coll init error: Cannot create SHARP job(-11)" in finding.what


def test_not_wanted_is_silent():
    result = gate("")
    assert result.verdict == "accepted"
    assert not [each for each in result.notes if "SHARP" in each]
