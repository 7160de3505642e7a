"""The catalogue of faults: what a real fleet shows, done to a node and taken back."""

import difflib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab import monitor
from rdmaprov.lab.model import LabNode
from rdmaprov.lab.patience import limit_s
from rdmaprov.resources import data_dir

TIMEOUT_S = 120.0
NOTHING_TO_BREAK = 3  # a script's exit code: what it is to break is not there
# Where a node records a fault, by what ends it: in memory, or on the disk.
_RECORDS = {"a reboot": "/run/rdmaprov-lab/faults", "healed": "/var/lib/rdmaprov-lab/faults"}
_HEADER = re.compile(
    r"# title: (?P<title>.+)\n"
    r"# stands for: (?P<stands_for>.+\n(?:#   .+\n)*)"
    r"# breaks: (?P<scope>one rail|the node), until (?P<until>a reboot|healed)\n"
)


@dataclass(frozen=True)
class Fault:
    """One fault: a shell script with the functions `state`, `inject` and `heal`."""

    name: str
    title: str
    stands_for: str
    of_rail: bool
    until: str
    script: str


@dataclass(frozen=True)
class Healed:
    """A fault that is no longer there; `repaired`: something else had ended it before."""

    name: str
    rail: int | None
    repaired: bool

    def __str__(self) -> str:
        """Return its name for the user."""
        rail = "" if self.rail is None else f" of rail {self.rail}"
        return self.name + rail + (" (repaired before)" if self.repaired else "")


def _read(path: Path) -> Fault:
    text = path.read_text()
    header = _HEADER.match(text)
    if header is None:
        raise RdmaprovError(
            f"{path}:1: no header", "Begin it with '# title: …', '# stands for: …', '# breaks: …'."
        )
    stands_for = re.sub(r"\n#   ", " ", header["stands_for"]).strip()
    return Fault(
        path.stem,
        header["title"].strip(),
        stands_for,
        header["scope"] == "one rail",
        header["until"],
        text,
    )


def catalogue() -> Mapping[str, Fault]:
    """Return every fault by its name, in the order of the names."""
    return {path.stem: _read(path) for path in sorted((data_dir("lab") / "faults").glob("*.sh"))}


def find(name: str) -> Fault:
    """Return the fault of that name; raise UsageError if there is none."""
    known = catalogue()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    raise UsageError(
        f"there is no fault {name!r}" + (f"; did you mean {close[0]}?" if close else ""),
        "Run: rdmaprov lab fault --list",
    )


def _script(*parts: str) -> str:
    library = (data_dir("lab") / "faults" / "lib").read_text()
    return "\n".join([library, *parts])


def inject(fault: Fault, node: LabNode, node_dir: Path, rail: int) -> None:
    """Put the fault on a node; where it is already, nothing changes.

    Raises:
        UsageError: what it is to break is not there.
        RdmaprovError: it did not work.
        UnreachableError: the node does not answer on its console channel.
    """
    where = rail if fault.of_rail else "node"
    longest_s = limit_s(TIMEOUT_S, node_dir)
    words = f"start {shlex.quote(fault.name)} {where} {_RECORDS[fault.until]}"
    outcome = monitor.run_inside(node.name, node_dir, _script(fault.script, words), longest_s)
    if outcome.returncode == NOTHING_TO_BREAK:
        raise UsageError(
            f"{node.name}: {outcome.stderr.strip()}",
            f"Nothing was changed: {fault.name} breaks what a configured node has.",
        )
    if outcome.returncode != 0:
        raise _failure(node, fault.name, outcome, "heal")


def heal(node: LabNode, node_dir: Path) -> list[Healed]:
    """Take back every fault of a node, the latest first, and return them.

    Raises:
        RdmaprovError: one of them did not go; what follows it is still there.
        UnreachableError: the node does not answer on its console channel.
    """
    longest_s = limit_s(TIMEOUT_S, node_dir)
    listed = monitor.run_inside(node.name, node_dir, _script("list_faults"), longest_s)
    healed = []
    for record in listed.stdout.split():
        name, rail, _ = record.split(".")
        parts = (find(name).script, f"finish {shlex.quote(record)}")
        outcome = monitor.run_inside(node.name, node_dir, _script(*parts), longest_s)
        if outcome.returncode != 0:
            raise _failure(node, name, outcome, "reset")
        number = None if rail == "node" else int(rail)
        healed.append(Healed(name, number, outcome.stdout.strip() == "repaired"))
    return healed


def _failure(node: LabNode, name: str, outcome: monitor.ProgramExit, way_out: str) -> RdmaprovError:
    said = (outcome.stderr or outcome.stdout).strip()[-500:]
    return RdmaprovError(
        f"{node.name}: {name} ended with {outcome.returncode}: {said}",
        f"Run: rdmaprov lab {way_out} {node.name}",
    )
