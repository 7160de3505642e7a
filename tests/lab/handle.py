"""A lab as the tests use it: through the program that its users run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from rdmaprov.lab import patience, ssh
from rdmaprov.lab.image import ImageStore
from rdmaprov.lab.layout import Layout, default_cache
from rdmaprov.lab.model import Lab, LabNode
from rdmaprov.lab.virtual_machines import Machines
from rdmaprov.resources import data_dir

# Of a quiet machine of two cores; see LabHandle.limit_s.
COMMAND_TIMEOUT_S = 1800
NODE_TIMEOUT_S = 300
# After these a node is another one, or may have started anew.
ENDS_CONNECTIONS = ("up", "down", "reboot", "reset", "replace", "restore")
SSH_FAILED = 255
CONNECTION = "connection-"
FACTORY = "factory"
PROVISIONED = "provisioned"


class LabHandle:
    def __init__(self, directory: Path, site: Path, cache: Path | None = None) -> None:
        self.directory = directory
        self.layout = Layout(directory, cache or default_cache())
        self.site = site
        self.cache = cache
        self._rails: dict[tuple[str, int], str] = {}
        self._states: set[str] = set()  # that were made by the code of today
        self._in_state: dict[str, str] = {}  # the nodes that nothing changed since they were in it

    def begin_from(
        self,
        state: str,
        make: Callable[[], object] | None = None,
        touches: Collection[str] | None = None,
    ) -> None:
        """Bring all nodes to a saved state, made if there is none; `touches` may change, or all."""
        if not self._has(state):
            if make is None:
                self.must("reset", *self.nodes())
            else:
                self.begin_from(FACTORY)
                make()
            self.keep(state)
        others = [node for node in self.names() if self._in_state.get(node) != state]
        if others:
            self.must("restore", state, *others)
            self._in_state.update(dict.fromkeys(others, state))
        for node in self.names() if touches is None else touches:
            self._in_state.pop(node, None)

    def keep(self, state: str) -> None:
        """Save the nodes as they are when a test ends, unless that state is saved already."""
        if not self._has(state):
            self.must("save", state)
            self._states.add(state)
            self._in_state = dict.fromkeys(self.names(), state)

    def adopt(self, states: Collection[str]) -> None:
        """Take states that an earlier run saved for those of the code of today."""
        self._states.update(states)

    def stop(self) -> None:
        Machines(self.layout, ImageStore(self.layout.cache / "images", print), print).stop_all()

    def names(self) -> list[str]:
        known = Lab.load(self.layout.state)
        assert known is not None
        return [node.name for node in known.nodes]

    def _has(self, state: str) -> bool:
        known = Lab.load(self.layout.state)
        assert known is not None
        whole = {each.name for each in known.saved if len(each.nodes) == len(known.nodes)}
        return state in whole & self._states

    def copy_site(self, directory: Path) -> Path:
        known = Lab.load(self.layout.state)
        assert known is not None
        site = Path(shutil.copytree(known.site, directory / "site"))
        variables = data_dir("inventory") / "lab" / "group_vars"
        shutil.copytree(variables, site / "group_vars", dirs_exist_ok=True)
        return site

    def limit_s(self, base_s: float) -> float:
        """Return a time limit for the machine as the lab measured it last."""
        return patience.limit_s(base_s, self.directory)

    def argv(self, *words: str) -> list[str]:
        places = ["--dir", str(self.directory)]
        if self.cache is not None:
            places += ["--cache", str(self.cache)]
        return [sys.executable, "-m", "rdmaprov", "lab", *places, *words]

    def rdmaprov(
        self, *words: str, stdin: str | None = None, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        if words[0] in ENDS_CONNECTIONS:
            self.disconnect()
        return subprocess.run(
            self.argv(*words),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=self.limit_s(timeout_s),
            check=False,
        )

    def must(self, *words: str) -> str:
        done = self.rdmaprov(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def call(self, node: str, script: str) -> subprocess.CompletedProcess[str]:
        """Return how a shell script ended on a node; one connection serves many of them."""
        done = self._ssh(node, "sh -s", script=script)
        # The node has started anew behind the connection's back: the script was not begun.
        if done.returncode == SSH_FAILED and "master" in done.stderr:
            self.disconnect()
            done = self._ssh(node, "sh -s", script=script)
        return done

    def login(self, node: str, script: str) -> str:
        done = self.rdmaprov("ssh", node, "--", "sh -s", stdin=script, timeout_s=NODE_TIMEOUT_S)
        assert done.returncode == 0, f"{node}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def disconnect(self) -> None:
        for path in self.directory.glob(f"{CONNECTION}*"):
            self._ssh(path.name.removeprefix(CONNECTION), "-O", "exit")
            path.unlink(missing_ok=True)

    def _ssh(self, node: str, *words: str, script: str = "") -> subprocess.CompletedProcess[str]:
        persistent = {
            "ControlMaster": "auto",
            "ControlPath": f"{CONNECTION}%n",
            "ControlPersist": "yes",
        }
        options = [word for key, value in persistent.items() for word in ("-o", f"{key}={value}")]
        program, *rest = ssh.command(self.layout, node, words)
        return subprocess.run(
            [program, *options, *rest],
            cwd=self.directory,  # a socket's name may have 107 bytes, whatever the directory's has
            input=script,
            capture_output=True,
            text=True,
            timeout=self.limit_s(NODE_TIMEOUT_S),
            check=False,
        )

    def run(self, node: str, script: str) -> str:
        done = self.call(node, script)
        assert done.returncode == 0, f"{node}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in json.loads(self.must("status", "--json"))["nodes"]}

    def saved_states(self) -> list[dict[str, Any]]:
        states: list[dict[str, Any]] = json.loads(self.must("status", "--json"))["saved"]
        return states

    def node(self, name: str) -> LabNode:
        described = Lab.load(self.layout.state)
        assert described is not None
        return described.node(name)

    def netdev(self, node: str, rail: int) -> str:
        if not self._rails:
            self._rails = {
                (name, each["rail"]): each["netdev"]
                for name, state in self.nodes().items()
                for each in state["rails"]
            }
        return self._rails[node, rail]


def crash(lab: LabHandle, node: str) -> None:
    os.kill(int((lab.layout.node(node) / "qemu.pid").read_text().split()[0]), signal.SIGKILL)
    while lab.nodes()[node]["state"] != "down":
        time.sleep(0.2)


def processes_with(text: str) -> list[str]:
    """Return the command lines of all processes that mention text: arguments, environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = process.joinpath("cmdline").read_bytes() + b"\0"
            where = str(process.joinpath("cwd").readlink())
            words = said.replace(b"\0", b" ").decode(errors="replace")
            said += process.joinpath("environ").read_bytes()
        except OSError:
            continue
        if text.encode() in said or text in where:
            found.append(words)
    return found


if __name__ == "__main__":
    LabHandle(Path(sys.argv[1]), Path(sys.argv[1])).stop()
