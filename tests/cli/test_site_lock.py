"""Two runs on a site or a node: the second is told who holds it, and waits or is refused."""

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from plugins.plugin_utils.holder import Holder, of_process
from tests.cli.namespaced import hosts, needs_namespace, rdmaprov
from tests.program import ARGV, call
from tests.tables import cases
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli.site_lock import SiteHeld, site_lock
from rdmaprov.exit_codes import ExitCode

TIMEOUT_S = 600
HOSTS = cases(__file__, "hosts")


class Held:
    """A site whose only node accepts connections and says nothing, so that apply stays in it."""

    def __init__(self, directory: Path) -> None:
        self.node = socket.create_server(("127.0.0.1", 0))
        self.node.settimeout(TIMEOUT_S)
        hosts = HOSTS.format(port=self.node.getsockname()[1])
        self.site = write(directory / "site", {**GOOD, "hosts.yml": hosts})
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*ARGV, *map(str, words)],
            cwd=self.site.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, *words: object) -> tuple[int, str]:
        """Return how a verb ended that reaches no node."""
        done = call(*words, cwd=self.site.parent)
        return done.returncode, done.stdout + done.stderr

    @contextmanager
    def applying(self) -> Iterator[subprocess.Popen[str]]:
        """Provide an apply that runs; at the end the node turns it away, and so it ends."""
        process = self.start("apply", "site")
        with self.turning_away():
            yield process

    @contextmanager
    def turning_away(self) -> Iterator[None]:
        """Hold a connection, and end it for good: one that the node only dropped is made again."""
        with self.node.accept()[0] as one:
            yield
            one.sendall(b"SSH-1.0-older\r\n")

    def close(self) -> None:
        """End what runs; a node that is gone ends all that was connected to it."""
        self.node.close()
        for process in self.started:
            process.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def held(tmp_path):
    site = Held(tmp_path)
    yield site
    site.close()


def test_second_run_is_refused_and_told_who_holds_the_site(held):
    with held.applying() as first:
        for verb in ("apply", "accept", "tune"):
            code, said = held.run(verb, "site")
            assert code == ExitCode.UNKNOWN, verb
            who = f"{getpass.getuser()} on {socket.gethostname()} (pid {first.pid})"
            assert said.startswith(f"error: site is held by {who} since 20"), verb
            assert "UTC, run rdmaprov apply site\n" in said
            assert said.endswith("hint:  Wait for that run to end, or pass --wait SECONDS.\n")
            assert len(list(held.site.parent.glob("runs/*"))) == 1  # the first one's


def test_directory_is_held_whatever_its_name_and_access_and_no_other(held, tmp_path):
    (tmp_path / "link").symlink_to(held.site)
    write(tmp_path / "site2", {**GOOD, "hosts.yml": HOSTS.format(port=1)})
    held.site.chmod(0o555)
    with held.applying():
        for name in (tmp_path / "link", "moved"):
            if name == "moved":
                held.site.rename(tmp_path / "moved")
            code, said = held.run("apply", name)
            assert (code, "is held by" in said) == (ExitCode.UNKNOWN, True)
        code, said = held.run("apply", "site2")
        assert (code, "n1: unreachable" in said) == (ExitCode.UNKNOWN, True)


def test_verbs_that_only_read_need_no_lock(held):
    with held.applying():
        assert held.run("check", "site") == (ExitCode.OK, "site: 1 node, 0 problems\n")
        second = held.start("plan", "site")
        with held.turning_away():
            pass  # it has come to the node
        out, said = second.communicate(timeout=TIMEOUT_S)
        assert (second.returncode, "n1: unreachable" in out) == (ExitCode.UNKNOWN, True), said


def test_run_that_waits_begins_when_the_other_one_ends(held):
    with held.applying():
        second = held.start("apply", "site", "--wait", TIMEOUT_S)
        waiting = second.stderr.readline()
        assert "site is held by" in waiting
        assert waiting.endswith(f"; waiting up to {TIMEOUT_S} s\n")
    with held.turning_away():
        pass  # the second one has come to the node
    out, said = second.communicate(timeout=TIMEOUT_S)
    assert (second.returncode, "n1: unreachable" in out) == (ExitCode.UNKNOWN, True), said
    kept = [json.loads(path.read_text()) for path in held.site.parent.glob("runs/*/results.json")]
    assert len(kept) == 2


def test_run_that_waited_long_enough_is_refused_and_an_interrupt_ends_it_sooner(held):
    with site_lock(held.site, 0):  # by this process, which no slow node ends
        code, said = held.run("apply", "site", "--wait", "1", "--quiet")
        assert (code, said.startswith("error: site is held by")) == (ExitCode.UNKNOWN, True)
        second = held.start("apply", "site", "--wait", TIMEOUT_S)
        assert "waiting up to" in second.stderr.readline()
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=TIMEOUT_S)
        assert second.returncode == ExitCode.INTERRUPTED


def holding(site: Path, user: int = 0) -> list[str]:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from rdmaprov.cli.site_lock import site_lock; from rdmaprov.drift import collection\n"
        f"if {user}: os.setgid({user}); os.setuid({user})\n"
        "with site_lock(Path(sys.argv[1]), 0): print('held', flush=True); sys.stdin.read()\n"
    )
    return [sys.executable, "-c", code, str(site)]


def test_run_that_was_killed_holds_no_site(held):
    with subprocess.Popen(
        holding(held.site), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        with pytest.raises(SiteHeld, match=rf"\(pid {process.pid}\)"), site_lock(held.site, 0):
            pass
        process.kill()
    with site_lock(held.site, 0):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")
def test_lock_of_another_user_is_seen():
    """By nobody, who may only read the site."""
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory)
        site.chmod(0o755)
        with site_lock(site, 0):
            done = execute(holding(site, user=65534), timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    assert f"{site} is held by {getpass.getuser()} on " in done.stderr
    assert f"(pid {os.getpid()})" in done.stderr


THEIRS = Holder("b" * 32, "ana", "ctl2", 4711, "2026-01-01 00:00:00 UTC", "/runs/1", "boot ns", 9)
DROP_IN = "99-rdmaprov-memlock.conf"
# What a run writes.
MOUNTS = {"run": "/run", "limits.d": "/etc/security/limits.d", "pam.d": "/etc/pam.d"}
VARIABLES = cases(__file__, "variables")


class Node:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("run/rdmaprov", "limits.d", "pam.d"):
            (directory / "node" / name).mkdir(parents=True)
        made = hosts(directory, "{n1: {unit: 1}}", MOUNTS)
        files = {"hosts.yml": made, "group_vars/nodes.yml": VARIABLES}
        write(directory / "site", {**GOOD, **files})
        self.drop_in = directory / "node/limits.d" / DROP_IN
        self.record = directory / "node/run/rdmaprov/lock.json"

    def held_by(self, holder: Holder, left_s: float) -> None:
        until = time.clock_gettime(time.CLOCK_BOOTTIME) + left_s
        self.record.write_text(json.dumps({"holder": asdict(holder), "until": until}))

    def apply(self, *words: str) -> tuple[int, str]:
        return rdmaprov(self.directory, "apply", "site", "--roles", "limits", *words)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@needs_namespace
def test_node_of_another_controller_s_run_is_not_changed(node):
    node.held_by(THEIRS, 600)
    before = node.record.read_text()
    code, said = node.apply()
    assert code == ExitCode.FAILED, said
    who = "ana on ctl2 (pid 4711) since 2026-01-01 00:00:00 UTC, run /runs/1"
    assert f"held by {who}; if that run was killed, the lock ends by itself in" in said
    assert not node.drop_in.exists()
    assert node.record.read_text() == before


@pytest.mark.long
@needs_namespace
def test_run_that_waits_takes_the_node_when_the_lease_ends(node):
    node.held_by(THEIRS, 20)
    code, said = node.apply("--wait", "900")
    assert code == ExitCode.OK, said
    assert "1 node: 1 changed" in said
    assert node.drop_in.exists()


@needs_namespace
def test_run_that_was_killed_here_is_replaced_and_the_end_releases_the_node(node):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ended = of_process(process.pid, "/runs/2")
    node.held_by(ended, 600)
    code, said = node.apply()
    assert code == ExitCode.OK, said
    assert node.drop_in.exists()
    assert not node.record.exists()
