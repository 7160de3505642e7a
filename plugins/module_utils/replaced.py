"""What a run replaced on a node, kept there byte by byte, so that it can be put back.

Files below /etc hold secrets, so contents stay on the node: root's alone, the last ten changes, of
64 MiB at most. The order is that of the writes, so that a reader goes backwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
from dataclasses import dataclass
from typing import Any

from .machine import Machine, NodeError

STORE = "/var/lib/rdmaprov/replaced"
MOST_CHANGES = 10
MOST_BYTES = 64 * 1024 * 1024
# What a boot makes anew, and our own copies.
_NOT_KEPT = ("/run/", "/sys/", "/proc/", "/dev/", STORE + "/")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}")


def name_of(lock: dict[str, Any]) -> str:
    """Return the name of a change: that of its run's directory, or the day without rdmaprov's run.

    Args:
        lock: what a role's module was given of its run; empty for ansible-playbook alone.

    """
    name = os.path.basename(str((lock.get("holder") or {}).get("run", "")))
    return name if _NAME.fullmatch(name) else time.strftime("%Y%m%d-ansible", time.gmtime())


@dataclass(frozen=True)
class Replaced:
    """The keeper of what one role replaces in one change.

    Args:
        machine: the node.
        change: its name.
        role: whose files they are.

    """

    machine: Machine
    change: str
    role: str

    def keep(self, name: str, text: str | None) -> None:
        """Keep what stands at a path, before something else does.

        Args:
            name: of the path.
            text: what is to stand there; None for nothing.

        Raises:
            NodeError: it cannot be kept; nothing may be replaced then.

        """
        if name.startswith(_NOT_KEPT):
            return
        try:
            entries = self._entries()
            now = {"role": self.role, "path": name, "after": _digest(_bytes(text))}
            for entry in entries:
                if (entry["role"], entry["path"]) == (self.role, name):
                    entry.update(now)  # what stood there before this change is kept already
                    break
            else:
                self._make_room(0)
                entries.append({**now, **self._before(name, len(entries))})
            self._write("index.json", json.dumps({"files": entries}, indent=1) + "\n")
        except OSError as error:
            raise NodeError(f"{name} cannot be kept in {STORE}: {error.strerror}") from error

    def _before(self, name: str, number: int) -> dict[str, Any]:
        """Return what stands at a path; keep the content of a file."""
        try:
            found = os.lstat(self.machine.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return {"kind": "absent"}
        own = {"mode": stat.S_IMODE(found.st_mode), "user": found.st_uid, "group": found.st_gid}
        if stat.S_ISLNK(found.st_mode):
            return {"kind": "link", "target": os.readlink(self.machine.path(name)), **own}
        if not stat.S_ISREG(found.st_mode):
            return {"kind": "other", **own}
        if not self._make_room(found.st_size):
            return {"kind": "file", "content": None, **own}  # larger than all that may be kept
        with open(self.machine.path(name), "rb") as file:
            data = file.read()
        self._write(str(number), data.decode("utf-8", "surrogateescape"))
        return {"kind": "file", "content": str(number), "before": _digest(data), **own}

    def _entries(self) -> list[dict[str, Any]]:
        """Return what this change has kept so far.

        Raises:
            NodeError: somebody damaged that; the copies would not fit to a new list.

        """
        text = self.machine.read(f"{STORE}/{self.change}/index.json")
        try:
            return list(json.loads(text)["files"]) if text else []
        except (ValueError, KeyError, TypeError) as error:
            raise NodeError(f"{STORE}/{self.change}/index.json is damaged") from error

    def _write(self, name: str, text: str) -> None:
        os.makedirs(self.machine.path(STORE), 0o700, exist_ok=True)
        os.makedirs(self.machine.path(f"{STORE}/{self.change}"), 0o700, exist_ok=True)
        self.machine.write(f"{STORE}/{self.change}/{name}", text, 0o600)

    def _make_room(self, size: int) -> bool:
        """Forget the oldest changes, until a file more fits; return whether it does."""
        place = self.machine.path(STORE)
        sizes = {name: _size(os.path.join(place, name)) for name in self.machine.names(STORE)}
        others = [name for name in sizes if name != self.change]
        others.sort(key=lambda name: os.lstat(os.path.join(place, name)).st_mtime)
        while others and (len(others) >= MOST_CHANGES or sum(sizes.values()) + size > MOST_BYTES):
            shutil.rmtree(os.path.join(place, others[0]))
            del sizes[others.pop(0)]
        return sum(sizes.values()) + size <= MOST_BYTES


def _size(directory: str) -> int:
    return sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(directory))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _digest(data: bytes | None) -> str:
    """Return the SHA-256 of a content, empty for nothing."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
