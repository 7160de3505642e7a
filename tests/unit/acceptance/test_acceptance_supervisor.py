"""Programs on nodes: whatever happens, nothing of them is left.

Each test runs twice: with a keeper that does all by itself, and with units, by a stand-in for
systemd. tests/lab/test_units.py has the real one.
"""

import base64
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.accept_runs import job
from tests.unit.helpers.local_node import local_probe
from tests.unit.helpers.supervised import (
    Kept,
    alter,
    command_lines,
    marked,
    supervised_units,
    two_nodes,
    use_systemd,
)
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.ranks import request
from rdmaprov.acceptance.ranks.events import RankEvent
from rdmaprov.acceptance.ranks.launch import Launcher
from rdmaprov.acceptance.samples.packed import parse_samples

pytestmark = pytest.mark.waits

# Leaves its session, and has a child whose parent is gone.
ODD = "%n %% $HOME ${PATH} $$ `id` \\x41 'a' \"b\" ;&|<>\t*"
DAEMON = "setsid sh -c 'sleep 600 & sleep 600' & echo started; sleep 600"


@pytest.fixture(params=["keeper", "units"])
def units(request, monkeypatch, tmp_path):
    """Return the folder with the stand-in's units; there is none where a keeper does it all."""
    return supervised_units(request.param, monkeypatch, tmp_path)


@pytest.fixture
def nodes(units):
    with two_nodes(units) as probe:
        yield probe


@pytest.fixture
def keep(nodes):
    kept = []

    def start(*words, **limits):
        kept.append(Kept(nodes, *words, **limits))
        return kept[-1]

    yield start
    for each in kept:
        each.stop()


def test_output_status_and_environment(keep):
    kept = keep('echo "$WHERE"; echo trouble >&2; exit 3')
    assert until(lambda: kept.status()["rc"] is not None)
    assert kept.status()["rc"] == 3
    assert (kept.directory / "out").read_text() == f"{kept.directory}/x\n"
    assert (kept.directory / "err").read_text() == "trouble\n"


def test_stop_ends_daemons_and_removes_the_directory(keep):
    kept = keep(DAEMON)
    assert until(lambda: len(marked(kept.mark)) >= 4)
    assert kept.stop() == {"left": []}
    assert marked(kept.mark) == []
    assert not kept.directory.exists()
    assert kept.supervisor() is None


def test_a_program_that_ends_takes_its_daemons_along(keep):
    kept = keep("setsid sleep 600 & exit 5")
    assert until(lambda: kept.status()["rc"] == 5)
    assert until(lambda: marked(kept.mark) == [])


def test_nobody_asks_any_more(keep):
    kept = keep(DAEMON, lease_s=1.0)
    assert until(lambda: not kept.directory.exists())
    assert marked(kept.mark) == []
    assert until(lambda: kept.supervisor() is None)


def test_first_request_may_come_later_than_the_next(keep):
    """Until then, other nodes start."""
    kept = keep(DAEMON, lease_s=0.5, starting_s=600)
    assert until(lambda: (kept.directory / "out").read_text() == "started\n")
    assert not until(lambda: not kept.directory.exists(), 1.5)
    (kept.directory / "lease").touch()
    assert until(lambda: not kept.directory.exists())


def test_time_is_up(keep):
    kept = keep(DAEMON, limit_s=1.0)
    assert until(lambda: kept.status()["rc"] is not None)
    assert kept.status()["rc"] == 124
    assert kept.status()["why"] == "timed out after 1 s"
    assert until(lambda: marked(kept.mark) == [])


def test_a_keeper_that_is_killed_takes_the_program_along_and_stop_the_rest(keep):
    kept = keep("sleep 600")
    assert until(lambda: marked(kept.mark))
    os.kill(kept.supervisor(), signal.SIGKILL)
    assert kept.stop() == {"left": []}
    assert marked(kept.mark) == []
    assert not kept.directory.exists()


def test_a_program_that_is_killed_has_its_signal_as_a_reason(keep, units):
    kept = keep("kill -9 $$")
    assert until(lambda: kept.status()["rc"] is not None)
    assert kept.status()["rc"] == -9
    assert kept.status()["why"] == ("killed by signal 9" if units.exists() else "")


def test_values_reach_the_program_as_they_are(keep):
    """Neither a shell nor systemd, with its % and $, reads them on the way."""
    kept = keep('printf %s "$ODD"', environment={"ODD": ODD})
    assert until(lambda: kept.status()["rc"] == 0)
    assert (kept.directory / "out").read_text() == ODD


def test_a_program_that_exits_well_leaves_its_output_until_it_is_dismissed(keep):
    kept = keep("echo done; sleep 600 & exit 0")
    assert until(lambda: kept.status()["rc"] == 0)
    assert until(lambda: marked(kept.mark) == [])
    assert (kept.directory / "out").read_text() == "done\n"
    assert kept.stop() == {"left": []}


def test_end_of_the_connection_does_not_end_the_lease(keep, nodes):
    kept = keep("sleep 600", lease_s=2.0)
    nodes.close()
    assert until(lambda: not kept.directory.exists())
    assert marked(kept.mark) == []
    kept.stop = lambda: None


def test_sampler_ends_with_its_keeper(keep):
    sampler = base64.b64encode(request.sampler_source()).decode()
    kept = keep(
        "sleep 600",
        sample=request.sample_request([{"netdev": "lo", "pci": ""}], 60),
        files={"sampler.py": sampler},
    )
    ours = str(kept.directory).encode() + b"/sampler.py"
    assert until(lambda: any(ours in line for line in command_lines()))
    os.kill(kept.supervisor(), signal.SIGKILL)
    assert until(lambda: not any(ours in line for line in command_lines()))


HUNGRY = f"exec {sys.executable} -c 'import time; x = b\"x\" * (256 << 20); time.sleep(600)'"


@contextmanager
def with_systemd(monkeypatch, tmp_path, script, version=252):
    """Have the stand-in run a script; nothing of it is left."""
    use_systemd(monkeypatch, tmp_path, version)
    with local_probe("n0") as here:
        kept = Kept(here, script)
        try:
            yield kept
        finally:
            assert kept.stop() == {"left": []}


def test_ranks_that_take_too_much_memory_are_ended_and_it_is_told(monkeypatch, tmp_path):
    # A ten-thousandth of what is free is too little for a Python with 256 MiB on any machine.
    alter(monkeypatch, "MEMORY_SHARE = 0.9", "MEMORY_SHARE = 1e-4")
    with with_systemd(monkeypatch, tmp_path, HUNGRY) as kept:
        assert until(lambda: kept.status()["rc"] is not None)
        assert kept.status()["rc"] == -9
        assert kept.status()["why"] == "killed by the kernel: out of memory"
        assert marked(kept.mark) == []


@pytest.mark.parametrize("version", [239, 257])
def test_each_version_of_systemd_gets_what_it_knows(monkeypatch, tmp_path, version):
    with with_systemd(monkeypatch, tmp_path, "exit 7", version) as kept:
        assert until(lambda: kept.status()["rc"] == 7)


@pytest.mark.parametrize(("version", "job"), [(219, ""), (252, "12")], ids=["too old", "in a step"])
def test_a_systemd_that_is_too_old_or_would_leave_slurms_step_is_not_asked(
    monkeypatch, tmp_path, version, job
):
    monkeypatch.setenv("SLURM_JOB_ID", job)
    with with_systemd(monkeypatch, tmp_path, "sleep 600", version):
        assert list((tmp_path / "systemd" / "units").iterdir()) == []


EVENTS = cases(__file__, "events")


def runs(nodes, tmp_path, *endings, **more):
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
