"""Rails that NVLink hides are run again without it; and rails that reach each other or not."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest import mock

import jsonschema
import pytest
from tests.madeup import accept as made
from tests.madeup.faults import kinds
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import usual_shape
from tests.madeup.site import site_nodes
from tests.unit.helpers.nccl_runs import packed
from tests.unit.helpers.preflight_facts import facts, tries
from tests.unit.helpers.swept_fleets import gate_site, swept, tuning

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import fleet as stages_fleet
from rdmaprov.acceptance.stages import rails_alone as stages_rails
from rdmaprov.acceptance.summary import summary_lines
from rdmaprov.report import of_accept

GIB = 1 << 30
OFF = {"NCCL_MNNVL_ENABLE": "0"}
# Inside a made-up node an all-reduce reaches 480 GB/s; between two racks the floor is 80 % of that.
NVLINK_GB_S = 450.0
SCHEMA = json.loads((Path(__file__).parents[3] / "docs/results.schema.json").read_text())


def hidden(ran):
    return not any(own.items() >= OFF.items() for own in ran.job.environment.values())


class RackRunner(MadeUpRunner):
    """Ranks whose all-reduces go by NVLink between nodes, unless their environment forbids it."""

    def run(self, jobs, limit_s=None):
        runs = super().run(jobs, limit_s)
        for ran in runs:
            if len(ran.job.nodes) > 1 and hidden(ran):
                ran.events[:] = [self.by_nvlink(ran, event) for event in ran.events]
        return runs

    def by_nvlink(self, ran, event):
        if event["event"] != "row" or ran.tasks[event["task"]].collective != "all_reduce":
            return event
        us = event["bytes"] * 2 * (ran.job.world - 1) / ran.job.world / NVLINK_GB_S / 1e3
        return {**event, "median_us": us, "p99_us": us, "min_us": us}


def racks(shape, per_rack=2):
    return tuple(
        replace(node, values={**node.values, "fabric_nvlink_domain": f"rack{number // per_rack}"})
        for number, node in enumerate(site_nodes(shape))
    )


@cache
def accepted(kind=None):
    """Return a gate's result on two racks, its lines, and what is broken; no test alters them."""
    lines: list[str] = []
    with (
        mock.patch.object(made, "MadeUpRunner", RackRunner),
        mock.patch.object(made, "site_nodes", racks),
    ):
        done = made.accept(
            usual_shape(4),
            kind,
            seed=1,
            on_stage=lines.append,
            stages=("state", "preflight", "host", "fleet"),
        )
    return done.result, lines, done.fleet.truths


def test_racks_of_nvlink_are_accepted_by_both_planes():
    result, lines, _ = accepted()
    assert result.findings == []
    assert result.verdict == "accepted"
    over = result.over_rails
    assert over is not None
    assert hidden(result.ran)
    assert not hidden(over.ran)
    assert over.judgement.floor.ceiling_gb_s <= 400  # eight rails of 400G, of single nodes
    assert over.judgement.floor.ceiling_gb_s < result.judgement.floor.ceiling_gb_s
    assert [line for line in lines if stages_rails.PLANE in line]
    data = result.as_data()
    assert data["floor_over_rails"]["sentence"] == over.judgement.sentence
    assert [plane["name"] for plane in data["planes"]] == ["all rails", stages_rails.PLANE]
    assert sorted({row["bytes"] for row in data["planes"][1]["rows"]}) == [
        2 * GIB,
        4 * GIB,
        8 * GIB,
    ]
    assert over.judgement.sentence in "\n".join(line.text for line in summary_lines(result))


def test_a_rail_that_nvlink_hides_is_found_by_the_second_run():
    (kind,) = (kind for kind in kinds() if kind.name == "half-slot")
    result, lines, (truth,) = accepted(kind)
    assert result.judgement.verdict.value == "healthy"
    assert result.over_rails.judgement.verdict.value == "slow"
    assert result.verdict == "refused"
    assert any(line.startswith("isolation") for line in lines)
    # Four nodes are too few to tell which end of a pair it is.
    bad = usual_shape(4).names[truth.nodes[0]]
    (slow,) = (found for found in result.findings if not found.nodes)
    assert slow.what == f"{stages_rails.PLANE}: {result.over_rails.judgement.sentence}"
    named = [found.nodes for found in result.findings if found.nodes]
    assert named
    assert all(bad in nodes for nodes in named)


def test_results_and_page_have_the_second_run():
    result, _, _ = accepted()
    shape = SCHEMA["$defs"]["accepted"]["properties"]["floor"]
    jsonschema.validate(result.as_data()["floor_over_rails"], shape)
    facts = dict(of_accept._facts({**result.as_data(), "nodes": result.nodes_as_data()}))
    assert facts["over rails alone (NCCL_MNNVL_ENABLE=0)"] == result.over_rails.judgement.sentence


def rack_result(log="", racks=18):
    site = gate_site(18, 4, "NVIDIA GB200", racks=racks, rails=4)
    ran = swept(18, 4, 820, 8 * GIB)
    result = GateResult(tuple(node.name for node in site.nodes), "nccl", ran=ran)
    result.used_mnnvl = "MNNVL" in log
    return site, result


def test_the_second_run_is_due_where_nodes_share_nvlink_by_the_site_or_by_the_log():
    site, result = rack_result()
    assert stages_rails.is_due(site, result)
    assert not stages_rails.is_due(replace(site, mnnvl=False), result)
    assert not stages_rails.is_due(replace(site, backend="gloo"), result)
    site, result = rack_result(racks=1)
    assert not stages_rails.is_due(site, result)
    site, result = rack_result("MNNVL", racks=1)
    assert stages_rails.is_due(site, result)


def test_a_run_that_failed_has_no_second_one():
    site, result = rack_result()
    next(iter(result.ran.nodes.values())).rc = 1
    assert not stages_rails.is_due(site, result)


def test_nccls_log_shows_nvlink_between_nodes():
    site = gate_site(2, 8, "NVIDIA GB200", fabric_kind="roce")
    ran = swept(2, 8, 300, 8 * GIB)
    said = tuning(16, 8 * GIB, "RING")
    line = "n0:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] via P2P/MNNVL\n"
    for text, used in ((said, False), (said + line, True)):
        ran.nodes["n0"].logs = packed(text)
        result = GateResult(("n0", "n1"), "nccl", ran=ran)
        stages_fleet.judge_nccl(result, site, ran, lambda *_: None)
        assert result.used_mnnvl is used


@pytest.mark.parametrize("mnnvl", [True, False])
def test_jobs_of_a_site_without_nvlink_between_nodes_forbid_it(mnnvl):
    site = made_site(usual_shape(4), mnnvl)
    for job in (jobs.fleet_job(site, (8,), False), jobs.session_job(site, 0)):
        assert all((own.items() >= OFF.items()) is not mnnvl for own in job.environment.values())
    if not mnnvl:
        job = stages_rails.rails_job(site, Options(sizes=(8, 16, 32, GIB)))
        assert [task.sizes for task in job.tasks] == [(16, 32, GIB)]


def made_site(shape, mnnvl):
    """Return what the gate knows of a made-up fleet after the preflight."""
    seen = []
    real = stages_fleet.fleet_job

    def note(site, options):
        seen.append(site)
        return real(site, options)

    with mock.patch.object(stages_fleet, "fleet_job", note):
        made.accept(shape, stages=("state", "preflight", "fleet"))
    return replace(seen[0], mnnvl=mnnvl)


def test_nvlink_that_the_site_does_not_state_is_a_note():
    """NCCL's log shows it: the rails are proven all the same."""
    shown = mock.patch.object(stages_fleet, "shows_mnnvl", lambda matrix: bool(matrix.members))
    with shown, mock.patch.object(made, "MadeUpRunner", MadeUpRunner):
        result = made.accept(usual_shape(4), stages=("state", "preflight", "fleet")).result
    assert result.over_rails is not None
    assert result.findings == []
    (note,) = (note for note in result.notes if "fabric_nvlink_domain" in note)
    assert "P2P/MNNVL" in note


DROPPED = "no answer in 5 s"


@pytest.fixture
def known(nodes):
    found = {}
    for node in nodes:
        found[node.name] = facts(int(node.name[1:]))
        for number, rail in enumerate(found[node.name]["rails"]):
            rail["mac"] = mac(node.name, number)
    return found


def mac(name, rail):
    return f"02:00:00:00:{rail:02x}:{int(name[1:]):02x}"


def say(own, why, *, ping=False, state="REACHABLE", answered_by=None):
    """Return the answers where rail 1 gets none by TCP for this reason."""
    said = {}
    for name, tests in own.items():
        bad = [test.rail == 1 for test in tests]
        said[name] = {
            "reach": [why if each else "" for each in bad],
            "own": ["" for _ in tests],
            "pings": [each and ping for each in bad],
            "neighbors": [
                {
                    "state": state if each else "REACHABLE",
                    "mac": mac(answered_by or test.target, test.rail or 0),
                }
                for test, each in zip(tests, bad, strict=True)
            ],
        }
    return said


def judge(nodes, known, said, backend="nccl", kind="roce"):
    return readings.judge(tries(nodes, known), said, known, backend, kind)


# firewalld's REJECT is icmp-host-prohibited, which arrives as "No route to host".
@pytest.mark.parametrize("why", [DROPPED, "No route to host"])
def test_a_firewall_that_drops_tcp_on_rails_stops_no_run_over_rdma(nodes, known, why):
    found, (note,) = judge(nodes, known, say(tries(nodes, known), why))
    assert found == []
    assert note.startswith("rail 1: ")
    assert "A firewall may drop TCP" in note


def test_a_ping_that_is_answered_shows_that_the_rail_works(nodes, known):
    assert judge(nodes, known, say(tries(nodes, known), DROPPED, ping=True)) == ([], [])


@pytest.mark.parametrize("state", ["FAILED", "INCOMPLETE"])
def test_arp_without_an_answer_proves_that_the_rail_does_not_work(nodes, known, state):
    found, notes = judge(nodes, known, say(tries(nodes, known), "No route to host", state=state))
    assert {finding.rail for finding in found} == {1}
    assert all(f.proven and f"ip neigh: {state}" in f.what for f in found)
    assert notes == []


@pytest.mark.parametrize("why", ["Network is unreachable", "No such device"])
def test_a_node_that_cannot_send_is_proven(nodes, known, why):
    found, _ = judge(nodes, known, say(tries(nodes, known), why, state=""))
    assert found
    assert all(finding.proven for finding in found)


def test_infiniband_needs_no_addresses(nodes, known):
    said = say(tries(nodes, known), "Network is unreachable", state="FAILED")
    found, notes = judge(nodes, known, said, kind="infiniband")
    assert (found, len(notes)) == ([], 1)


def test_gloo_needs_tcp(nodes, known):
    found, _ = judge(nodes, known, say(tries(nodes, known), DROPPED, ping=True), "gloo")
    assert {finding.rail for finding in found} == {1}


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_an_address_that_another_node_answers_for_is_named_with_both(nodes, known, backend):
    own = tries(nodes, known)
    said = say(own, "")
    number = next(n for n, t in enumerate(own["n2"]) if (t.target, t.rail) == ("n3", 0))
    said["n2"]["neighbors"][number]["mac"] = mac("n4", 0)
    (found,), _ = judge(nodes, known, said, backend)
    assert (found.level, found.nodes, found.rail) == ("pair", ("n3", "n4"), 0)
    assert "198.18.0.3 of n3 is answered by n4 rail 0" in found.what


def test_a_switch_that_answers_arp_for_nodes_is_no_stranger(nodes, known):
    said = say(tries(nodes, known), "")
    for answer in said.values():
        for neighbor in answer["neighbors"]:
            neighbor["mac"] = "02:00:5e:00:01:01"
    assert judge(nodes, known, said) == ([], [])


def test_an_answer_without_neighbors_proves_nothing_of_rdma(nodes, known):
    own = tries(nodes, known)
    said = {
        name: {"reach": [DROPPED] * len(tests), "own": [""] * len(tests)}
        for name, tests in own.items()
    }
    assert judge(nodes, known, said)[0] == []


def test_the_reader_tells_of_ways_beside_tcp(here):
    targets = [{"address": "127.0.0.1", "device": "lo"}, {"address": "127.0.0.1", "device": "no0"}]
    command = program_command("reader", {"verb": "reach", "targets": targets, "limit_s": 2}, 60)
    seen = ask_nodes(here, {"n1": command}, lambda _: shapes.reach(2))["n1"]
    assert isinstance(seen, dict)
    assert seen["reach"] == ["", "No such device"]
    assert seen["pings"] == [False, False]
    assert [each["state"] for each in seen["neighbors"]] == ["", ""]


def test_targets_of_the_rendezvous_are_on_no_rail(nodes, known):
    said = say(tries(nodes, known), "")
    for name, tests in tries(nodes, known).items():
        said[name]["reach"] = ["" if test.rail is not None else DROPPED for test in tests]
    assert judge(nodes, known, said) == ([], [])
    assert any(test.rail is None for tests in tries(nodes, known).values() for test in tests)
