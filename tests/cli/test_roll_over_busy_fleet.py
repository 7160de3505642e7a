"""A rolling apply over 64 nodes with a real Slurm: jobs, dead and wrong nodes, an interrupt.

Each node has an sshd and an /etc of its own; its jobs run beside it. Of the suite, the one test of
what is applied is asked, as nodes have no RDMA device.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.program import ended, fork
from tests.tables import cases
from tests.unit.helpers.fleet import Fleet
from tests.unit.helpers.slurm_cluster import Slurm, running_cluster
from tests.unit.helpers.waiting import until

from rdmaprov.cli import node_proofs
from rdmaprov.cli.apply_run import Rolling
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.service import POLL_S

pytestmark = [
    pytest.mark.hours,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces"),
    pytest.mark.skipif(shutil.which("sshd", path="/usr/sbin") is None, reason="needs sshd"),
]

COUNT, SERIAL = 64, 8
NAMES = tuple(f"n{index:03}" for index in range(COUNT))
FAILS, HUMANS, DEAD, BUSY = NAMES[3], NAMES[20], NAMES[30:32], NAMES[40:43]
GOOD = set(NAMES) - {FAILS, HUMANS, *DEAD, *BUSY}
REASON = "RMA 4711, board swapped"
DONE = ("changed", "unchanged")
SAMPLE_S = 1.0
SITE = cases(__file__, "site")
JOB = "touch {at}/$SLURM_JOB_ID.begun; sleep {seconds}; touch {at}/$SLURM_JOB_ID.done"
SLURM = "SlurmdTimeout=10\nInactiveLimit=0\n"
Sample = tuple[float, dict[str, tuple[str, str]]]


class Watcher(Thread):
    """Asks sinfo each second, and has a job start in each gap that Slurm finds."""

    def __init__(self, cluster: Slurm, jobs: Path) -> None:
        super().__init__(daemon=True)
        self.cluster, self.jobs = cluster, jobs
        self.samples: list[Sample] = []
        self.over = Event()

    def run(self) -> None:
        while not self.over.wait(SAMPLE_S):
            lines = self.cluster.ask("sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines()
            words = (line.split("|", 2) for line in lines)
            self.samples.append((time.time(), {name: (word, why) for name, word, why in words}))
            if len(self.cluster.jobs().split()) < len(BUSY) + 6:
                self.submit(seconds=7)

    def submit(self, *options: str, seconds: int) -> None:
        script = JOB.format(at=self.jobs, seconds=seconds)
        words = ("sbatch", "--exclusive", "-N1", "-o", "/dev/null", "--wrap", script, *options)
        assert self.cluster.ask(*words), self.cluster.log()

    def ids(self, what: str) -> set[str]:
        return {each.stem for each in self.jobs.glob(f"*.{what}")}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(COUNT) as made:
        (made.site / "group_vars").mkdir()
        (made.site / "group_vars/all.yml").write_text(json.dumps(SITE))
        known = f"-oUserKnownHostsFile={made.directory}/known_hosts"
        at = f"root@{made.address(NAMES.index(FAILS))}"
        mount = "mount -t tmpfs -o ro none /etc/security/limits.d"
        key = made.directory / "key"
        subprocess.run(["ssh", "-F", "none", known, "-i", key, at, mount], check=True)
        for name in DEAD:
            made._processes[NAMES.index(name)].kill()
        yield made


def timed(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """Note when each batch is worked on, its nodes' validation and return included."""
    prove, validate = Rolling._prove, node_proofs.validate_nodes

    def noted(self, names):
        begun = time.time()
        try:
            return prove(self, names)
        finally:
            with log.open("a") as file:
                file.write(json.dumps([begun, time.time(), list(names)]) + "\n")

    monkeypatch.setattr(Rolling, "_prove", noted)
    option = ("-k", "logins_configured")
    monkeypatch.setattr(node_proofs, "validate_nodes", lambda *given: validate(*given, *option))


def works(log: Path) -> list[tuple[float, float, list[str]]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def is_ours(seen: tuple[str, str]) -> bool:
    """Return whether a run has a node now."""
    return seen[1].startswith("rdmaprov: apply in progress on ")


def idle_times(
    samples: list[Sample], worked: list[tuple[float, float, list[str]]]
) -> dict[str, float]:
    """Return the longest time that each node was empty and ours, and not worked on."""
    longest: dict[str, float] = {}
    open_since: dict[str, float] = {}
    for at, seen in samples:
        for name, each in seen.items():
            is_worked = any(begun <= at <= end for begun, end, names in worked if name in names)
            if is_ours(each) and each[0].startswith("drained") and not is_worked:
                since = open_since.setdefault(name, at)
                longest[name] = max(longest.get(name, 0.0), at - since)
            else:
                open_since.pop(name, None)
    return longest


def apply(fleet: Fleet, cluster: Slurm, output: Path, *, stop=None) -> tuple[int, str]:
    words = ("apply", fleet.site, "--roles", "limits", "--serial", SERIAL, "--max-failures", "3")
    own = {name: cluster.environment[name] for name in ("SLURM_CONF", "PATH")}
    with output.open("w+") as out, Path(os.devnull).open() as nothing:
        process = fork(words, fleet.directory, (nothing.fileno(), out.fileno(), out.fileno()), own)
        if stop is not None:
            assert until(stop, 400), output.read_text()
            os.kill(process.pid or 0, signal.SIGINT)
        code = ended(process)
    return code, output.read_text()


def results(fleet: Fleet) -> dict[str, dict[str, object]]:
    run = max((fleet.directory / "runs").glob("*-apply"), key=lambda path: path.name)
    found: dict[str, dict[str, object]] = json.loads((run / "results.json").read_text())["nodes"]
    return found


def test_roll_ends_and_names_the_rest(fleet, tmp_path, monkeypatch):
    log, jobs = tmp_path / "log", tmp_path / "jobs"
    jobs.mkdir()
    timed(monkeypatch, log)
    with running_cluster(NAMES, SLURM) as cluster:
        cluster.ask("scontrol", "update", f"nodename={HUMANS}", "state=drain", f"reason={REASON}")
        for name in DEAD:
            cluster._processes[2 + NAMES.index(name)].kill()
        watcher = Watcher(cluster, jobs)
        for name in BUSY:
            watcher.submit("-w", name, seconds=3600)
        assert until(lambda: len(watcher.ids("begun")) == len(BUSY))
        busy = watcher.ids("begun")
        watcher.start()
        try:
            check_roll(fleet, cluster, watcher, log, tmp_path)
            assert set(cluster.jobs().split()) >= busy
        finally:
            watcher.over.set()
            watcher.join()
        assert until(lambda: set(cluster.jobs().split()) == busy)
        assert len(watcher.ids("begun") - busy) > 20
        assert watcher.ids("begun") - busy == watcher.ids("done")


def check_roll(fleet, cluster, watcher, log, tmp_path):
    def is_in_the_middle():
        done = {name for *_, names in works(log) for name in names}
        ours = [name for name, each in watcher.samples[-1][1].items() if is_ours(each)]
        return len(done) >= 12 and len(ours) >= SERIAL // 2

    code, said = apply(fleet, cluster, tmp_path / "first", stop=is_in_the_middle)
    first = len(watcher.samples)
    assert code == ExitCode.INTERRUPTED, said
    left = {name for name, each in watcher.samples[-1][1].items() if is_ours(each)}
    proven = {name for name, node in results(fleet).items() if node["state"] in DONE}
    begun = time.time()
    code, said = apply(fleet, cluster, tmp_path / "second")
    # One node failed; without it, those that nothing is known of would make it 4.
    assert code == ExitCode.FAILED, said
    bad = {name for name, node in results(fleet).items() if node["state"] not in DONE}
    assert bad == set(NAMES) - GOOD, said
    for named in (*BUSY, f"({fold_names(DEAD)})", HUMANS, FAILS):
        assert f"{named}: " in said, named
    assert "the run stopped" not in said
    state = watcher.samples[-1][1]
    assert {name for name in GOOD if state[name][0].startswith("drain")} == set()
    assert state[HUMANS] == ("drained", REASON)
    assert state[FAILS] == ("drained", "rdmaprov: apply stopped at apply: failed")
    assert {state[name][1] for name in BUSY} == {"none"}

    worked = works(log)
    assert not proven & {name for at, _, names in worked if at > begun for name in names}
    assert 1 < max(sum(map(is_ours, seen.values())) for _, seen in watcher.samples) <= SERIAL
    for at, end, names in worked:
        seen = [one for when, one in watcher.samples if at + 1 < when < end - 3]
        states = {one[name][0] for one in seen for name in names if is_ours(one[name])}
        assert states <= {"drained", "drained*"}, names
    before = idle_times(watcher.samples[:first], worked)
    after = idle_times(watcher.samples[first:], worked)
    most_idle = POLL_S + COUNT * 0.001 + 2 * SAMPLE_S  # one poll, seen from samples
    # On quiet processors, work may begin before a sample sees a node empty.
    assert max(before.values(), default=0) <= most_idle
    assert max((s for name, s in after.items() if name not in left), default=0) <= most_idle
    # What the interrupted run left empty comes before what is in service.
    order = [name for at, _, names in worked if at > begun for name in names]
    assert set(order[: len(left)]) == left
