"""What was proven of each node, kept so that the same command goes on where it stopped."""

import hashlib
import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.files import write_whole
from rdmaprov.runs.results import read_json
from rdmaprov.scheduler.model import MARK, NodeStatus

_FORMAT = 1
# Older proofs count no more: somebody may have had the machine open since. Our choice: a day.
KEPT_S = 24 * 3600.0


def journal_directory(site: Path, runs: Path | None = None, verb: str = "replace") -> Path:
    """Return where a site's journals of a verb are; one file for each node."""
    digest = hashlib.sha256(str(site.resolve()).encode()).hexdigest()[:8]
    return (runs or runs_directory()) / f"{verb}-{site.resolve().name}-{digest}"


@dataclass
class Journal:
    """The proofs of nodes; each is written before the next step begins.

    A proof holds for one identity: the machine, and what the site wants of it. It is dropped with
    the identity, with its age, and when an earlier step is done again.
    """

    directory: Path
    steps: tuple[str, ...]  # that prove something, in their order
    now: Callable[[], float] = time.time  # seconds since 1970

    @property
    def owner(self) -> str:
        """Return what tells the runs that share these proofs from all others: CONTROLLER/DIGITS."""
        place = hashlib.sha256(str(self.directory.resolve()).encode()).hexdigest()[:6]
        return f"{socket.gethostname()}/{place}"

    def bind(self, node: str, identity: str) -> None:
        """Drop a node's proofs unless they are of this identity."""
        kept = self._read(node)
        if kept.get("identity") != identity:
            self._write(node, {**kept, "identity": identity, "passed": {}})

    def left(self, node: str, reason: str) -> bool:
        """Return whether a reason in the scheduler is the one that we left there, or none."""
        kept = self.get(node, "reason")
        return reason == MARK or (isinstance(kept, str) and reason.startswith(kept))

    def holds(self, node: str, status: NodeStatus) -> bool:
        """Return whether the scheduler still says of a node what we left there, if anything.

        Where it does not, somebody else has had the node since, and may have worked on it.
        """
        if status.is_ours:
            return self.left(node, status.reason)
        return self.get(node, "reason") is None

    def forget(self, node: str, *, begun: bool) -> None:
        """Drop a node's proofs: somebody else has had it, and may have `begun` to change it."""
        self.note(node, passed={}, drained=False, reason=None, begun=begun)

    def has(self, node: str, step: str) -> bool:
        """Return whether a step, and all before it, were passed and not too long ago."""
        passed = self._read(node)["passed"]
        needed = self.steps[: self.steps.index(step) + 1]
        return all(0 <= self.now() - passed.get(each, -KEPT_S) < KEPT_S for each in needed)

    def is_proven(self, node: str) -> bool:
        """Return whether all steps were passed."""
        return self.has(node, self.steps[-1])

    def begin(self, node: str, step: str) -> None:
        """Drop the proofs of a step and of those after it: what it does may break them."""
        kept = self._read(node)
        before = self.steps[: self.steps.index(step)]
        passed = {name: at for name, at in kept["passed"].items() if name in before}
        self._write(node, {**kept, "passed": passed, "begun": True})

    def keep(self, node: str, step: str) -> None:
        """Note that a node has passed a step now."""
        kept = self._read(node)
        self._write(node, {**kept, "passed": {**kept["passed"], step: self.now()}})

    def note(self, node: str, **more: object) -> None:
        """Note something else, such as that we drained a node."""
        self._write(node, {**self._read(node), **more})

    def get(self, node: str, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return what was noted; None if it was not."""
        return self._read(node).get(name)

    def close(self, node: str) -> None:
        """Drop a node's journal: it is in service."""
        self._path(node).unlink(missing_ok=True)

    def _path(self, node: str) -> Path:
        return self.directory / f"{node}.json"

    def _read(self, node: str) -> dict[str, Any]:
        """Return a node's journal; an empty one if there is none that can be used."""
        try:
            kept = read_json(self._path(node))
            is_sound = kept["format"] == _FORMAT and all(
                isinstance(at, (int, float)) for at in kept["passed"].values()
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            is_sound = False
        return kept if is_sound else {"format": _FORMAT, "passed": {}}

    def _write(self, node: str, kept: Mapping[str, Any]) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({**kept, "format": _FORMAT}, indent=1) + "\n"
        write_whole(self._path(node), text)


def identity_of(values: Mapping[str, Any], machine: str) -> str:
    """Return what proofs of a node hold for."""
    text = json.dumps([machine, dict(values)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
