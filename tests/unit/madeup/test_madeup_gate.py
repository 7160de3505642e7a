"""The whole gate on a made-up fleet."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from resource import RUSAGE_SELF, getrusage

import pytest
from tests.madeup.accept import accept
from tests.madeup.faults import FAULTS, kinds
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import usual_shape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.preflight.needs import reader_request
from rdmaprov.acceptance.ranks import events as rank_events
from rdmaprov.acceptance.ranks.plan import GateJob, JobPlane, Task

KINDS = tuple(kind.name for kind in kinds(held_out=True))


def job(nodes=4, **more):
    names = usual_shape(nodes).names
    same = dict.fromkeys(names, "")
    return GateJob("nccl", names, 8, same, "10.10.0.1", 1, same, (JobPlane("all rails"),), **more)


def tasks(world):
    whole = (tuple(range(world)),)
    yield Task(
        0,
        "host",
        "all rails",
        tuple(tuple(range(n, n + 8)) for n in range(0, world, 8)),
        sizes=(1 << 20,),
    )
    yield Task(1, "pairs", "all rails", ((0, 8), (16, 24)), "exchange")
    yield Task(2, "groups", "all rails", whole, "all_to_all", (1 << 20,))
    yield Task(3, "fleet", "all rails", whole, sizes=(8, 1 << 20, 8 << 30))
    yield Task(4, "soak", "all rails", whole, sizes=(1 << 30,), soak_s=30)


def run(kind=None, seed=1, nodes=4):
    made = job(nodes, tasks=tuple(tasks(8 * nodes)))
    runner = MadeUpRunner(MadeUpFleet(usual_shape(nodes), kind, seed))
    (ran,) = runner.run([made])
    return ran


@pytest.mark.parametrize("name", ["healthy", *KINDS])
def test_ranks_say_nothing_that_the_controller_would_not_take(name):
    ran = run(FAULTS.get(name))
    for event in ran.events:
        own = ran.job.ranks_of(ran.job.node_of(event["rank"]))
        line = json.dumps(event)
        assert rank_events.parse_event(line, own, ran.job.world, ran.tasks) == json.loads(line)


@pytest.mark.parametrize("name", ["healthy", *KINDS])
def test_nodes_answer_in_the_readers_shapes(name):
    shape = usual_shape(4)
    asked = {node.name: node for node in site_nodes(shape)}
    connection = MadeUpNodes(MadeUpFleet(shape, FAULTS.get(name), 1))
    for verb, check in (("preflight", shapes.preflight(8)), ("counters", shapes.counters(8))):
        requests = {host: reader_request(node, verb) for host, node in asked.items()}
        commands = {host: program_command("reader", one, 10) for host, one in requests.items()}
        answers = ask_nodes(connection, commands, partial(_same, check))
        lost = [node for node, answer in answers.items() if not isinstance(answer, dict)]
        assert len(lost) == (1 if name == "dead-node" else 0), answers


def _same(check, _node):
    return check


def test_a_seed_gives_the_same_events_again():
    assert run(FAULTS["lossy-rail"], 7).events == run(FAULTS["lossy-rail"], 7).events
    assert run(None, 7).events != run(None, 8).events


def test_a_healthy_fleet_of_16_nodes_is_accepted():
    done = accept(usual_shape(16), seed=1)
    assert (done.result.verdict, done.result.findings) == ("accepted", [])


@pytest.mark.program
def test_the_gate_runs_on_512_nodes_of_eight_gpus_in_less_than_a_gigabyte():
    """The fleet's memory counts, too. In a process of its own: what it takes stays with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        ranks, verdict, said, most_bytes = pool.submit(accept_512_nodes).result()
    assert (ranks, verdict) == (4096, "accepted"), said
    assert most_bytes < 1 << 30


def accept_512_nodes():
    """Return a healthy fleet's ranks, the verdict, its findings, and the memory that it took."""
    result = accept(usual_shape(512), seed=1).result
    ranks = result.ran.job.world if result.ran else 0
    said = [finding.text for finding in result.findings]
    return ranks, result.verdict, said, 1024 * getrusage(RUSAGE_SELF).ru_maxrss


def test_there_are_30_kinds_of_faults_and_some_are_kept_for_the_test():
    everything = list(kinds(held_out=True))
    assert len(everything) >= 30
    assert 5 <= sum(kind.held_out for kind in everything) < len(everything) / 3
    assert {kind.level for kind in everything} == {"node", "rank", "rail", "leaf", "pair", "fleet"}
