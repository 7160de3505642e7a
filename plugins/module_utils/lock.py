"""A node's lock: one run at a time changes a node. Runs on the node.

While a module runs, it holds the kernel's lock on a file, which ends with the process, however that
ends. Between the modules of a run no process of it is on the node, so a record beside the file
names the run and has a lease. The record is only read and written by whoever has the kernel's
lock, so of two runs exactly one takes it. Both files are under /run: a reboot removes them.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from .machine import Machine, NodeError

LOCK = "/run/rdmaprov/lock"
RECORD = "/run/rdmaprov/lock.json"
# Between two roles of a run lies the time that the slowest node of the batch needs for the first.
LEASE_S = 900.0
_MOST_LEASE_S = 86400.0  # of another version of this module
LOCK_ARGUMENT: dict[str, dict[str, Any]] = {"lock": {"type": "dict", "default": {}}}


class Held(NodeError):
    """Another run holds the node.

    Args:
        holder: what it says about itself; empty if there is no telling.
        running: whether one of its modules runs now.
        left_s: seconds until its lease ends, unless it is renewed.
        step: whether that is a unit, which ends after a limited time.
    """

    def __init__(
        self, holder: dict[str, Any], running: bool, left_s: float, step: bool = False
    ) -> None:
        super().__init__("another run holds the node")
        self.held: dict[str, Any] = {
            "holder": holder,
            "running": running,
            "left_s": left_s,
            "step": step,
        }


@dataclass
class NodeLock:
    """The node's lock for as long as a module runs; as a context.

    A module that fails releases it, as that ends the run on this node.
    """

    machine: Machine
    # of the action plugin: `holder`, the run, with its `id`; `keep`, whether the run holds the node
    # after the module; `replace`, the id of a run that is known to have ended. If empty, nothing is
    # locked.
    given: dict[str, Any]
    keep: bool = field(init=False)  # whether the run holds the node after the module

    def __post_init__(self) -> None:
        """Keep what the run wants to keep."""
        self.keep = bool(self.given.get("keep"))

    def __enter__(self) -> NodeLock:
        """Take the lock; raise Held if it is another run's."""
        if self.given:
            self._file = _open(self.machine)
            try:
                self._take()
            except BaseException:
                os.close(self._file)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Renew the lease, or release the lock."""
        if not self.given:
            return
        try:
            if self.keep and kind is None:
                self._write()
            else:
                self.machine.remove(RECORD)
        finally:
            os.close(self._file)

    def _take(self) -> None:
        is_running = not _lock(self._file)
        holder, left_s = read_record(self.machine)
        own = (self.given["holder"]["id"], self.given.get("replace") or None)
        if is_running or (left_s > 0 and holder.get("id") not in own):
            raise Held(holder, is_running, max(left_s, 0.0))
        self._write()

    def _write(self) -> None:
        record = {"holder": self.given["holder"], "until": _now() + LEASE_S}
        self.machine.write(RECORD, json.dumps(record), 0o600)


def release(machine: Machine, given: dict[str, Any]) -> None:
    """End a run's hold on the node, unless one of its modules still runs.

    Raises:
        NodeError: the lock cannot be opened.
    """
    if not given or not machine.exists(RECORD):
        return
    file = _open(machine)
    try:
        if _lock(file) and read_record(machine)[0].get("id") == given["holder"]["id"]:
            machine.remove(RECORD)
    finally:
        os.close(file)


def _open(machine: Machine) -> int:
    path = machine.path(LOCK)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Never removed: who waits for it and who makes a new one would have different locks.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise NodeError(f"{LOCK} cannot be opened: {error.strerror}") from error


def _lock(file: int) -> bool:
    """Take the kernel's lock; return whether it was free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_record(machine: Machine) -> tuple[dict[str, Any], float]:
    """Return the run of the record and the seconds left of its lease; no run, 0 if it is odd."""
    try:
        record = json.loads(machine.read(RECORD) or "")
        holder, left_s = record["holder"], float(record["until"]) - _now()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return {}, 0.0
    if not isinstance(holder, dict) or not math.isfinite(left_s) or left_s > _MOST_LEASE_S:
        return {}, 0.0
    return holder, left_s


def _now() -> float:
    """Return a time that no clock setting changes; it begins anew with each boot, as /run does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
