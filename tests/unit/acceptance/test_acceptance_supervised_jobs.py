"""Jobs whose programs run on nodes: they end together, and with the controller."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.helpers.accept_runs import job
from tests.unit.helpers.supervised import command_lines, supervised_units, two_nodes

from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.launch import Launcher
from rdmaprov.acceptance.samples.packed import parse_samples

pytestmark = pytest.mark.waits


@pytest.fixture(params=["keeper", "units"])
def nodes(request, monkeypatch, tmp_path):
    with two_nodes(supervised_units(request.param, monkeypatch, tmp_path)) as probe:
        yield probe


EVENTS = r"""#!/bin/sh
rank=$(sed -n 's/.*"first": \([0-9]*\).*/\1/p' "$2")
echo "noise of a library"
echo '{"rank": '$rank', "event": "phase", "phase": "sweep"}'
"""


def runs(nodes, tmp_path, *endings, **more):
    """Return how a job ended whose interpreters are scripts, one for each node."""
    pythons = {}
    for number, ending in enumerate(endings):
        path = tmp_path / f"python{number}"
        path.write_text(EVENTS + ending + "\n")
        path.chmod(0o755)
        pythons[f"n{number}"] = str(path)
    heard: list[RankEvent] = []
    (ran,) = Launcher(nodes, heard.append, grace_s=0.5).run([job(2, pythons=pythons, **more)])
    assert heard == ran.events
    return ran


def test_a_job_runs_to_its_end_on_all_nodes(nodes, tmp_path):
    ran = runs(nodes, tmp_path, "exit 0", "sleep 2; exit 0")
    assert ran.good
    assert {event["rank"] for event in ran.events_of("phase")} == {0, 1}
    assert [node.left for node in ran.nodes.values()] == [(), ()]
    assert not any(Path(node.directory).exists() for node in ran.nodes.values())


def test_one_node_that_fails_ends_the_others(nodes, tmp_path):
    ran = runs(nodes, tmp_path, "exec sleep 600", "echo 'No module named torch' >&2; exit 1")
    assert (ran.nodes["n0"].rc, ran.nodes["n1"].rc) == (None, 1)
    assert "No module named torch" in ran.nodes["n1"].errors
    assert [node.left for node in ran.nodes.values()] == [(), ()]


LO, ABSENT = ({"netdev": name, "pci": ""} for name in ("lo", "no-such-device"))
SAMPLED = {"n0": (LO,), "n1": (LO, ABSENT)}


@pytest.mark.parametrize("ending", ["exit 0", "exec sleep 600"])
def test_counters_of_rails_are_read_until_the_end_and_fetched(nodes, tmp_path, ending):
    ran = runs(nodes, tmp_path, ending, "exit 1", sampled=SAMPLED)
    for name, rails in SAMPLED.items():
        found = parse_samples(ran.nodes[name].samples, len(rails))
        assert found.fast.column(0, "down") is not None
        assert found.lasted_s > 0
    assert [node.left for node in ran.nodes.values()] == [(), ()]
    ours = [f"{node.directory}/sampler.py".encode() for node in ran.nodes.values()]
    assert not any(each in line for line in command_lines() for each in ours)


def test_a_program_that_is_not_there_is_told(nodes, tmp_path):
    pythons = {"n0": str(tmp_path / "none"), "n1": "/bin/true"}
    (ran,) = Launcher(nodes).run([job(2, pythons=pythons)])
    assert ran.nodes["n0"].rc == 127
    assert "cannot start" in ran.nodes["n0"].why


def test_an_interrupt_ends_everything(nodes, tmp_path):
    path = tmp_path / "python"
    path.write_text(EVENTS + "sleep 600\n")  # no exec: its command line is what is looked for
    path.chmod(0o755)
    seen = []

    def interrupt(event):
        seen.append(event)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Launcher(nodes, interrupt).run([job(2, pythons=dict.fromkeys(("n0", "n1"), str(path)))])
    assert seen
    assert not any(str(path).encode() in line for line in command_lines())
