"""An interpreter that has torch: what is pinned, what it has, and that it works. Runs on the node.

Importing torch costs seconds, on a busy node many. So versions are read from what pip left, and
the import that proved them is remembered with the size and time of the files it was made with.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from ..machine import CommandFailed, Machine, NodeError
from ..plan import RUNNING, Change, Plan, Refused

PROOF = "/var/lib/rdmaprov/torch_runtime.json"
IMPORT_TIMEOUT_S = 900
# Where each package's metadata is, and its version; "-" for one that is not there.
_FIND = """\
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        each = m.distribution(name)
    except m.PackageNotFoundError:
        continue
    found[name] = [each.version, str(each._path)]
print(json.dumps(found))
"""
_IMPORT = """\
import torch, torch.distributed as d
print(torch.__version__ if d.is_available() else "no torch.distributed")
"""


def interpreter(plan: Plan, python: str, pins: list[Pin]) -> None:
    """Have it proven that an interpreter that is there has torch, in the versions wanted.

    Raises:
        Refused: it is not there, or has something else.
    """
    if not plan.machine.exists(python):
        raise Refused(
            f"torch_runtime_python: there is no {python}; write another one, or "
            "torch_runtime_kind: venv"
        )
    names = names_of(pins)
    if _is_proven(plan.machine, python, names, pins):
        return
    found = _versions(plan.machine, python, names)
    wrong = _different(found, pins)
    if wrong:
        raise Refused(
            f"{python}: {wrong} (torch_runtime_requirements); rdmaprov does not change an existing "
            "interpreter: write the versions that it has, or torch_runtime_kind: venv"
        )
    change = Change(RUNNING, python, "torch", f"{found['torch'][0]}, not verified", "imported")
    plan.add(change, lambda: prove(plan.machine, python, pins))


def is_right(machine: Machine, python: str, pins: list[Pin]) -> str:
    """Return what is not as wanted in an environment of ours, empty if nothing is."""
    names = names_of(pins)
    if _is_proven(machine, python, names, pins):
        return ""
    try:
        return _different(_versions(machine, python, names), pins) or "not verified"
    except NodeError as error:
        return str(error)


def prove(machine: Machine, python: str, pins: list[Pin]) -> None:
    """Import torch, and remember with what; raise NodeError if it is not what its metadata says."""
    found = _right_versions(machine, python, pins)
    seen = _run(machine, python, _IMPORT, [], IMPORT_TIMEOUT_S).split("\n")[-1]
    if normal(seen) != normal(found["torch"][0]):
        raise NodeError(f"{python}: torch imports as {seen}, installed is {found['torch'][0]}")
    remember(machine, python, pins)


def remember(machine: Machine, python: str, pins: list[Pin]) -> None:
    """Keep in mind that torch was imported with these files."""
    found = _right_versions(machine, python, pins)
    files = [python, *(os.path.join(path, "RECORD") for _, path in found.values())]
    proof = {
        "python": python,
        "versions": {name: version for name, (version, _) in found.items()},
        "files": {path: _stamp(machine, path) for path in files},
    }
    machine.write(PROOF, json.dumps(proof, indent=2, sort_keys=True) + "\n")


def names_of(pins: list[Pin]) -> list[str]:
    """Return the packages to look at: torch in any case."""
    return sorted({"torch", *(pin.name for pin in pins)})


def _is_proven(machine: Machine, python: str, names: list[str], pins: list[Pin]) -> bool:
    try:
        proof = json.loads(machine.read(PROOF) or "{}")
        versions, files = dict(proof.get("versions", {})), dict(proof.get("files", {}))
    except (ValueError, TypeError):
        return False  # found out anew
    return (
        proof.get("python") == python
        and sorted(versions) == names
        and all(pin.is_met_by(str(versions[pin.name])) for pin in pins)
        and bool(files)
        and all(_stamp(machine, path) == stamp for path, stamp in files.items())
    )


def _right_versions(machine: Machine, python: str, pins: list[Pin]) -> dict[str, tuple[str, str]]:
    found = _versions(machine, python, names_of(pins))
    wrong = _different(found, pins)
    if wrong:
        raise NodeError(f"{python}: {wrong}")
    return found


def _different(found: dict[str, tuple[str, str]], pins: list[Pin]) -> str:
    """Return which versions are not as wanted, empty if all are."""
    wanted = {pin.name: pin for pin in pins}
    said = []
    for name in names_of(pins):
        version = found[name][0] if name in found else ""
        pin = wanted.get(name)
        if not version or (pin is not None and not pin.is_met_by(version)):
            said.append(
                f"{name} is {version or 'absent'}, expected {pin.version if pin else 'any'}"
            )
    return "; ".join(said)


def _versions(machine: Machine, python: str, names: list[str]) -> dict[str, tuple[str, str]]:
    text = _run(machine, python, _FIND, names, 120)
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise NodeError(f"{python}: its package versions are unknown: {text[:80]!r}") from error
    return {name: (str(version), str(path)) for name, (version, path) in found.items()}


def _run(machine: Machine, python: str, code: str, words: list[str], timeout_s: int) -> str:
    try:
        # -I: what root has installed for itself, or set in PYTHONPATH, is not the environment.
        return machine.run([python, "-I", "-c", code, *words], timeout_s=timeout_s).strip()
    except CommandFailed as error:
        last = (error.output.splitlines() or ["no message"])[-1]
        raise NodeError(f"{python}: {last} (exit code {error.code})") from error


def _stamp(machine: Machine, name: str) -> list[int]:
    """Return a file's size and time, which tell another one; empty if there is none."""
    return (machine.stamp(name) or [])[:2]


_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[\w,-]+\])?\s*==\s*"
    r"(?P<version>[\w.+!-]+)(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})*)"
)


@dataclass(frozen=True)
class Pin:
    """One package that is wanted."""

    name: str  # as wheels are compared by (PEP 503)
    version: str
    line: str
    hashed: bool

    def is_met_by(self, seen: str) -> bool:
        """Return whether a version is this one.

        A build, such as +cpu, counts only if it is asked for (PEP 440, version matching).
        """
        wanted = self.version
        return _release(seen if "+" in wanted else seen.partition("+")[0]) == _release(wanted)


def parse(lines: list[str], variable: str) -> list[Pin]:
    """Return what is wanted.

    Raises:
        Refused: a line is not a pin, a package is listed twice, or only some have digests.
    """
    found: dict[str, Pin] = {}
    for line in lines:
        match = _PIN.fullmatch(line.strip())
        if match is None:
            raise Refused(f"{variable}: '{line}' is not pinned; write NAME==VERSION")
        pin = Pin(normal(match["name"]), match["version"], line.strip(), bool(match["hashes"]))
        if pin.name in found:
            raise Refused(f"{variable}: {pin.name} is listed twice")
        found[pin.name] = pin
    bare = [pin.name for pin in found.values() if not pin.hashed]
    if bare and len(bare) < len(found):
        raise Refused(f"{variable}: {bare[0]} has no --hash=sha256:…, and others have; write all")
    return list(found.values())


def normal(name: str) -> str:
    """Return a package's name as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _release(version: str) -> str:
    """Return a version for comparison: 2.13 is 2.13.0."""
    public, plus, build = version.lower().partition("+")
    return re.sub(r"(\.0+)+$", "", public) + plus + build
