"""Programs of the lab that outlive their starter, work side by side, and limits of their time."""

import _thread
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.tables import cases
from tests.unit.helpers.waiting import until

from rdmaprov.lab import patience
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.patience import MOST, QUIET_BOOT_S, QUIET_PROBE_S, Speed
from rdmaprov.lab.process import CommandError, Daemon, run
from rdmaprov.lab.tools import in_parallel

SLEEP = ["sleep", "60"]


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path / "program.pid")
    yield daemon
    daemon.stop()


def start(daemon, argv):
    directory = daemon.record.parent
    daemon.start(argv, cwd=directory, log=directory / "log")
    until(daemon.pid, 5)
    return daemon.pid()


def test_daemon_runs_until_stopped(daemon):
    assert start(daemon, SLEEP) is not None
    daemon.stop()
    assert daemon.pid() is None
    assert not daemon.record.exists()


def test_daemon_started_again_is_the_same(daemon):
    assert start(daemon, SLEEP) == start(daemon, SLEEP)


def test_daemon_started_by_many_at_once_runs_once(daemon, tmp_path):
    count = ["sh", "-c", "echo $$ >> started; exec sleep 60"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: start(daemon, count), range(8)))
    assert until((tmp_path / "started").exists)  # its shell may have yet to begin
    assert len((tmp_path / "started").read_text().split()) == 1


def test_daemon_of_a_killed_starter_is_known_to_the_next(daemon, tmp_path):
    script = (
        "import os, pathlib, signal; from rdmaprov.lab.process import Daemon;"
        f"Daemon(pathlib.Path({str(daemon.record)!r})).start(['sleep', '60'],"
        f" cwd=pathlib.Path({str(tmp_path)!r}), log=pathlib.Path({str(tmp_path / 'log')!r}));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    assert start(daemon, ["sh", "-c", "exit 1"]) is not None


def test_another_process_with_the_same_id_is_not_the_daemon(daemon):
    start(daemon, SLEEP)
    stat = daemon.record.read_text()
    fields = stat.split()
    fields[21] = str(int(fields[21]) - 1)  # an earlier start time
    daemon.record.write_text(" ".join(fields))
    assert daemon.pid() is None
    daemon.record.write_text(stat)


def test_daemon_that_ignores_sigterm_is_killed(daemon, tmp_path):
    start(daemon, ["sh", "-c", "trap '' TERM; touch armed; while :; do sleep 0.1; done"])
    while not (tmp_path / "armed").exists():
        time.sleep(0.01)
    daemon.stop(timeout_s=0.3)
    assert daemon.pid() is None


def test_record_that_is_no_record_means_not_running(daemon):
    daemon.record.write_text("rubbish")
    assert daemon.pid() is None


def test_run_returns_what_the_program_printed():
    assert run(["echo", "-n", "hello"]) == "hello"


@pytest.mark.parametrize(
    ("words", "timeout_s", "says"), cases(__file__, "run_tells_how_a_program_failed")
)
def test_run_tells_how_a_program_failed(words, timeout_s, says):
    with pytest.raises(CommandError, match=says):
        run(words, timeout_s=timeout_s)


def test_results_keep_the_order_of_the_items():
    def work(number):
        time.sleep(0.02 * (3 - number))
        return number * 10

    assert in_parallel(work, [0, 1, 2]) == [0, 10, 20]


def test_nothing_to_do_is_done():
    assert in_parallel(str, []) == []


@pytest.mark.parametrize(
    ("ends", "raised"),
    [(lambda: int("no number"), ValueError), (_thread.interrupt_main, KeyboardInterrupt)],
)
def test_error_and_interrupt_come_through_without_waiting_for_the_others(ends, raised):
    never = threading.Event()

    def work(number):
        if number == 1:
            ends()
        never.wait()

    with pytest.raises(raised):
        in_parallel(work, [0, 1])


NOW = 1000.0


class Machine:
    def __init__(self, monkeypatch):
        self.now = NOW
        self.probe_s = QUIET_PROBE_S
        self.probes = 0
        monkeypatch.setattr("rdmaprov.lab.patience.time.time", lambda: self.now)
        monkeypatch.setattr("rdmaprov.lab.patience.time.monotonic", lambda: self.now)
        monkeypatch.setattr("rdmaprov.lab.accel.boots", self.boots)

    def boots(self, accel, timeout_s):
        assert accel is Accel.TCG
        self.probes += 1
        self.now += min(self.probe_s, timeout_s)
        return self.probe_s < timeout_s


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


@pytest.mark.parametrize(
    ("probe", "boot", "factor"),
    [
        *((0.05, 0, 1), (1, 0, 1), (2.5, 0, 2.5), (MOST, 0, MOST), (1000, 0, MOST)),
        *((2, 0.1, 2), (2, 3, 3), (2, 100, MOST)),  # a boot that took longer than the probe says
    ],
)
def test_limit_is_as_much_longer_as_the_probe_or_a_boot_took(
    probe, boot, factor, machine, tmp_path
):
    machine.probe_s = probe * QUIET_PROBE_S
    patience.measure(tmp_path, Accel.TCG)
    if boot:
        patience.keep_boot(tmp_path, boot * QUIET_BOOT_S)
    assert patience.limit_s(60, tmp_path) == pytest.approx(60 * factor, rel=1e-3)


def test_measurement_is_made_anew_after_a_minute_and_keeps_the_boot(machine, tmp_path):
    patience.measure(tmp_path, Accel.TCG)
    patience.keep_boot(tmp_path, 30)
    machine.probe_s = 4 * QUIET_PROBE_S
    machine.now = NOW + patience.MAX_AGE_S - 1
    patience.measure(tmp_path, Accel.TCG)
    assert machine.probes == 1
    assert patience.limit_s(1, tmp_path) == pytest.approx(1)
    machine.now = NOW + patience.MAX_AGE_S + 1
    patience.measure(tmp_path, Accel.TCG)
    assert machine.probes == 2
    assert patience.limit_s(1, tmp_path) == pytest.approx(4)
    assert json.loads((tmp_path / patience.FILE).read_text())["boot_s"] == 30


def test_node_has_the_patience_of_its_lab(tmp_path):
    Speed(NOW, 3 * QUIET_PROBE_S).save(tmp_path)
    assert patience.limit_s(5, tmp_path / "nodes" / "node1") == pytest.approx(15)


@pytest.mark.parametrize("text", [None, "", "{}", '{"measured_at": 1, "fast": 2}', "[1]"])
def test_what_cannot_be_read_leaves_the_limits_of_a_quiet_machine(text, tmp_path):
    if text is not None:
        (tmp_path / patience.FILE).write_text(text)
    assert patience.read(tmp_path) is None
    assert patience.limit_s(5, tmp_path) == 5
