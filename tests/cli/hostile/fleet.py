"""A fleet of nodes that lie and some that do not, and what a verb made of it.

All are this machine, behind a real sshd without a port, each with an interpreter of its own.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.hostile.lies import Lie
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import Sshd

from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import CONTROL

HERE = Path(__file__).parent
HONEST = "honest"
PATIENCE_S = 600  # of a test for a whole run; the verbs' own limits end it long before
SSH = "lab.example"  # nobody resolves it
_LIMIT_S = 6  # of a connection and of Ansible's task on a node that hangs
_CONNECT_S = 120  # many handshakes at a time take long where a machine does other work
_RAW = re.compile(f"[{CONTROL}]")
_LIAR = """\
#!/bin/sh
exec {python} -I -S {program} {lie} "$@"
"""


@dataclass
class Ran:
    """What a verb did."""

    code: int  # its exit code
    said: str  # what it wrote to its terminal
    # of results.json, by name; empty for a verb without
    nodes: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)  # results.json
    wrong: list[str] = field(default_factory=list)  # what no node may make it do, and some node did


class Fleet:
    """Nodes that lie behind honest ones: `replayed` that answer `data`, or one as it is."""

    def __init__(
        self,
        directory: Path,
        lies: Sequence[Lie],
        data: Mapping[str, Any],
        seed: int,
        variables: Mapping[str, Any] | None = None,
        replayed: int = 0,
    ) -> None:
        self.here = directory / "work"
        self._away = directory
        self.lies = {f"liar{number:03}": lie for number, lie in enumerate(lies, start=1)}
        for name in ("nodes", "tmp", "work"):
            (directory / name).mkdir()
        self.honest = [HONEST, *(f"{HONEST}{number}" for number in range(2, replayed + 1))]
        hosts: dict[str, Any] = {}
        for unit, name in enumerate(self.honest, start=1):
            python = sys.executable
            if replayed:
                good = Lie("honest", "").as_data(seed)
                python = self.interpreter(name, {**good, **data, "unit": unit})
            hosts[name] = {"unit": unit, "ansible_python_interpreter": python}
        for unit, (name, lie) in enumerate(self.lies.items(), start=len(hosts) + 1):
            entry = {**lie.as_data(seed), **data, "unit": unit}
            hosts[name] = {
                "unit": unit,
                "ansible_python_interpreter": self.interpreter(name, entry),
            }
            if lie.is_slow:
                hosts[name] |= {"ansible_ssh_timeout": _LIMIT_S, "rdmaprov_task_limit_s": _LIMIT_S}
        ssh = Sshd(directory).variables(SSH, "MaxSessions 1000")
        shared = {**ssh, "ansible_ssh_timeout": _CONNECT_S, **(variables or {})}
        nodes = {"nodes": {"hosts": hosts, "vars": shared}}
        write(self.here / "site", {**GOOD, "hosts.yml": "---\n" + json.dumps(nodes)})

    def interpreter(self, name: str, entry: Mapping[str, Any]) -> str:
        path = self._away / "nodes" / name
        told = {"told": str(self.told(name))}
        path.with_suffix(".json").write_text(json.dumps({**entry, **told}))
        path.write_text(
            _LIAR.format(
                python=sys.executable, program=HERE / "liar.py", lie=path.with_suffix(".json")
            )
        )
        path.chmod(0o700)
        return str(path)

    def told(self, name: str) -> Path:
        """Return the file that is there once a node has lied."""
        return self._away / "nodes" / f"{name}.told"

    def run(self, *words: str) -> Ran:
        before = self._files()
        environment = {
            **os.environ,
            "TMPDIR": str(self._away / "tmp"),
            "ANSIBLE_HOME": str(self._away / "ansible"),
            "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=5s",
        }
        done = subprocess.run(
            [sys.executable, str(HERE / "impatient.py"), *words],
            cwd=self.here,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        ran = Ran(done.returncode, (done.stdout + done.stderr).decode("utf-8", "surrogateescape"))
        for kept in (self.here / "runs").glob("*/results.json"):
            ran.document = json.loads(kept.read_text())
            ran.nodes = ran.document["nodes"]
        ran.wrong += self._wrong(ran, before)
        return ran

    def _wrong(self, ran: Ran, before: Mapping[str, str]) -> list[str]:
        """Return what a run must not do, whatever the nodes say."""
        found = []
        if ran.code not in (ExitCode.FAILED, ExitCode.UNKNOWN):
            found.append(f"exit code {ran.code}")
        if "Traceback" in ran.said:
            found.append("a traceback")
        texts = {"terminal": ran.said}
        for path in (self.here / "runs").rglob("*"):
            if path.is_file() and path.suffix != ".gz":
                texts[str(path)] = path.read_text(encoding="utf-8", errors="surrogateescape")
        for place, text in texts.items():
            if raw := _RAW.search(text):
                around = text[max(0, raw.start() - 60) : raw.start() + 60]
                found.append(f"a raw control character in {place}: {around!a}")
            if any("\ud800" <= each <= "\udfff" for each in text):
                found.append(f"bytes that are not UTF-8 in {place}")
        after = self._files()
        changed = {
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        if changed:
            found.append(f"files changed: {', '.join(sorted(changed))}")
        return found

    def _files(self) -> dict[str, str]:
        """Return every file that nobody may write but into runs/, with its content's digest."""
        found = {}
        for top in (self.here, self._away / "tmp"):
            for path in top.rglob("*"):
                inside = path.relative_to(top)
                if inside.parts[0] == "runs" and top == self.here:
                    continue
                data = path.read_bytes() if path.is_file() else b""
                found[str(path)] = hashlib.sha256(data).hexdigest()
        return found
