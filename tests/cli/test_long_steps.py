"""Long steps run on their nodes as units: no fork waits, and no end of a controller ends them.

Nodes are this machine with directories of a test. No systemd runs here: systemd-run and systemctl
are stand-ins (tests/unit/helpers/systemd_standin.py), and so is podman, whose pull takes a while.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.namespaced import hosts, needs_namespace
from tests.program import ARGV, start
from tests.tables import cases
from tests.unit.helpers import systemd_standin
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode

pytestmark = [needs_namespace, pytest.mark.waits]

MOUNTS = {"run": "/run", "bin": "/usr/local/sbin", "limits.d": "/etc/security/limits.d"}
PODMAN = cases(__file__, "podman")
VARIABLES = cases(__file__, "variables")
ROLES = ("--roles", "limits,torch_runtime")
WAIT_S = 600


class Node:
    """A node on this machine, whose podman pulls until it may end."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory / name / "node"
        for each in ("run/systemd/system", "limits.d"):
            (self.directory / each).mkdir(parents=True)
        systemd_standin.install(directory / name / "systemd", 252).rename(self.directory / "bin")
        self.units = directory / name / "systemd/units"
        podman = self.directory / "bin/podman"
        podman.write_text(PODMAN)
        podman.chmod(0o755)
        hosts(directory / name, "{}", MOUNTS)  # makes its Python
        self.steps = self.directory / "run/rdmaprov/steps"

    def end_pull(self) -> None:
        (self.directory / "bin/ends").touch()

    @property
    def pulls(self) -> bool:
        return (self.directory / "bin/pulls").exists()

    @property
    def pulled(self) -> bool:
        return (self.directory / "bin/pulled").exists()

    def main(self) -> int:
        (unit,) = self.units.glob("*.service")
        return int(json.loads(unit.read_text())["MainPID"])

    def stop(self) -> None:
        for unit in self.units.glob("*.service"):
            unit.with_suffix(".stop").touch()


class Place:
    def __init__(self, directory: Path) -> None:
        self.directory, self.nodes = directory, dict[str, Node]()

    def add(self, name: str) -> Node:
        self.nodes[name] = node = Node(self.directory, name)
        made = {
            one: {
                "unit": number,
                "ansible_connection": "local",
                "ansible_python_interpreter": str(self.directory / one / "python"),
            }
            for number, one in enumerate(self.nodes, 1)
        }
        files = {
            "hosts.yml": json.dumps({"nodes": {"hosts": made}}),
            "group_vars/nodes.yml": VARIABLES.format(digest="a" * 64),
        }
        write(self.directory / "site", {**GOOD, **files})
        return node

    def apply(self, site: str = "site", **environment: str) -> tuple[int, str]:
        done = start("apply", site, *ROLES, cwd=self.directory, **environment)
        return done.returncode, done.stdout + done.stderr

    def begin(self, **environment: str) -> subprocess.Popen[str]:
        """Start an apply that a test interrupts, or waits for."""
        return subprocess.Popen(
            [*ARGV, "apply", "site", *ROLES],
            cwd=self.directory,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def done(self) -> list[list[str]]:
        """Return the nodes that were surveyed again, by round."""
        log = "".join(path.read_text() for path in self.directory.glob("runs/*/logs/ansible.log"))
        parts = re.split(r"TASK \[Survey the node again\]", log)[1:]
        found = [re.findall(r"^ok: \[(n\d)\]", part.partition("TASK [")[0], re.M) for part in parts]
        return [names for names in found if names]

    def results(self) -> dict[str, dict[str, object]]:
        last = max(self.directory.glob("runs/*/results.json"))
        nodes: dict[str, dict[str, object]] = json.loads(last.read_text())["nodes"]
        return nodes


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example")
    made = Place(tmp_path)
    yield made
    for node in made.nodes.values():
        node.stop()


def until(condition) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.2)


def test_ready_nodes_go_on_while_a_slow_one_is_at_work_though_there_is_one_fork(place):
    slow, *quick = map(place.add, ("n1", "n2", "n3"))
    for node in quick:
        node.end_pull()
    with place.begin(ANSIBLE_FORKS="1") as run:
        until(lambda: place.done() == [["n2", "n3"]] or run.poll() is not None)
        slow.end_pull()
        said = run.communicate()[0]
    assert run.returncode == ExitCode.OK, said
    assert "3 nodes: 3 changed" in said
    assert place.done() == [["n2", "n3"], ["n1"]]
    for name, node in place.nodes.items():
        one = place.results()[name]
        assert (one["state"], one["roles_run"]) == ("changed", ["limits", "torch_runtime"])
        assert [each["wanted"] for each in one["changes"]["torch_runtime"]] == ["present"]
        assert node.pulled
        assert (node.directory / "bin/pulls").read_text() == "proxy.example\n"
        assert not [*node.steps.iterdir(), *node.units.iterdir()]
        assert not (node.directory / "run/rdmaprov/lock.json").exists()


@pytest.mark.long
def test_step_of_an_interrupted_controller_runs_on_and_the_next_one_waits_for_it(place):
    node = place.add("n1")
    with place.begin() as first:
        until(lambda: node.pulls)
        first.send_signal(signal.SIGINT)
        said = first.communicate()[0]
        assert first.returncode == ExitCode.INTERRUPTED, said
    assert place.results()["n1"]["roles"] == {"limits": "changed", "torch_runtime": "half_done"}
    assert not node.pulled
    with place.begin() as second:
        assert second.stdout
        for said in second.stdout:
            if "waits for what" in said:
                break
        assert "left running on the node" in said
        node.end_pull()
        said = second.stdout.read()
    assert second.returncode == ExitCode.OK, said
    assert "1 node: 1 unchanged" in said
    assert node.pulled
    assert not [*node.steps.iterdir(), *node.units.iterdir()]


@pytest.mark.long
def test_second_controller_is_refused_while_a_step_runs(place):
    node = place.add("n1")
    with place.begin() as first:
        until(lambda: node.pulls)
        subprocess.run(["cp", "-r", "site", "copy"], cwd=place.directory, check=True)
        code, said = place.apply(site="copy")
        assert code == ExitCode.FAILED, said
        assert "held by" in said
        assert "it changes the node now" in said
        first.send_signal(signal.SIGINT)
        first.communicate()


@pytest.mark.long
def test_step_that_was_killed_fails_its_node_with_the_reason(place):
    node = place.add("n1")
    with place.begin() as first:
        until(lambda: node.pulls)
        os.kill(node.main(), signal.SIGKILL)
        said = first.communicate(timeout=WAIT_S)[0]
    assert first.returncode == ExitCode.FAILED, said
    assert "signal 9 killed it (journalctl -u rdmaprov-step-torch_runtime-" in said
    assert not [*node.steps.iterdir(), *node.units.iterdir()]


def test_step_that_fails_says_why_as_the_role_does(place):
    node = place.add("n1")
    (node.directory / "bin/broken").touch()
    node.end_pull()
    code, said = place.apply()
    assert code == ExitCode.FAILED, said
    assert "podman pull --quiet" in said
    assert "torn" in said
    assert not [*node.steps.iterdir(), *node.units.iterdir()]
