"""Programs on nodes: whatever happens, nothing of them is left.

Each test runs twice: with a keeper that does all by itself, and with units, by a stand-in for
systemd. tests/lab/test_acceptance.py has the real one.
"""

from __future__ import annotations

import base64
import os
import signal

import pytest
from tests.unit.helpers.supervised import Kept, command_lines, marked, supervised_units, two_nodes
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.ranks import request

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
