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
from dataclasses import asdict, dataclass
from typing import Any

from .machine import Access, CommandFailed, Machine, NodeError
from .plan import Step, with_the_first

STORE = "/var/lib/rdmaprov/replaced"
# Of a node that applies bundles by itself: node/bundle.py of the controller.
PULL_STATE, PULL_SIGNED = "/var/lib/rdmaprov/state.json", "/var/lib/rdmaprov/state.signed"
MOST_CHANGES = 10
MOST_BYTES = 64 * 1024 * 1024
# What a boot makes anew, and our own copies.
_NOT_KEPT = ("/run/", "/sys/", "/proc/", "/dev/", STORE + "/")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}")
# Of systemctl: what changes at which boot a unit starts.
_OF_UNITS = ("enable", "disable", "mask", "unmask")


def name_of(lock: dict[str, Any]) -> str:
    """Return the name of a change: that of its run's directory, or the day without rdmaprov's run.

    Args:
        lock: what a role's module was given of its run; empty for ansible-playbook alone.
    """
    name = os.path.basename(str((lock.get("holder") or {}).get("run", "")))
    return name if _NAME.fullmatch(name) else time.strftime("%Y%m%d-ansible", time.gmtime())


def void_proof(machine: Machine, change: str) -> None:
    """Have a node that proved its bundle by itself say that another run has changed it since."""
    try:
        state = json.loads(machine.read(PULL_STATE) or "{}")
    except ValueError:
        return  # damaged, which the check says
    if isinstance(state, dict) and state.get("verdict") == "proven":
        why = f"{change} changed the node since; run: systemctl restart rdmaprov-node"
        state.update(verdict="unknown", kind="changed", why=why)
        machine.remove(PULL_SIGNED)
        machine.write(PULL_STATE, json.dumps(state, indent=1), 0o600)


def kept(machine: Machine, change: str) -> dict[str, Any]:
    """Return what a change has kept so far; empty lists if it kept nothing.

    "files": each with its role, its path, what stood there, and the digest of what the role wrote.
    "units": what systemctl was told of a unit, and the unit's state before. "changes": settings
    that are in no file, as they were seen. "reverted": by role that was taken back, the boot.

    Raises:
        NodeError: somebody damaged that; the copies would not fit to a new list.
    """
    found: dict[str, Any] = {"files": [], "units": [], "changes": [], "reverted": {}}
    path = f"{STORE}/{change}/index.json"
    try:
        read = json.loads(machine.read(path) or "{}")
        found.update({name: type(found[name])(read.get(name, found[name])) for name in found})
        for each in (*found["files"], *found["units"], *found["changes"]):
            each["role"] + each.get("path", "") + each.get("unit", "")
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} is damaged") from error
    return found


def as_text(found: dict[str, Any]) -> str:
    """Return the text of an index.json."""
    return json.dumps(found, indent=1) + "\n"


def files_of(machine: Machine, change: str, role: str) -> list[dict[str, str]]:
    """Return paths and digests of what a role wrote in a change, for the controller: no content."""
    return [
        {"path": each["path"], "before": each.get("before", ""), "after": each["after"]}
        for each in kept(machine, change)["files"]
        if each["role"] == role
    ]


def unit_state(machine: Machine, unit: str) -> str:
    """Return what systemctl says of a unit's start at boot; empty or another word for none."""
    try:
        return machine.run(["systemctl", "is-enabled", unit]).strip()
    except CommandFailed as error:
        return error.printed  # it ends with 1 for one that is disabled


@dataclass(frozen=True)
class Replaced:
    """The copies of what one role replaces in one change."""

    machine: Machine
    change: str
    role: str

    def keep(self, name: str, text: str | None, access: Access | None = None) -> None:
        """Keep what stands at a path, before something else does.

        Args:
            text: what is to stand there; None for nothing.
            access: whose it will be, and its mode.

        Raises:
            NodeError: it cannot be kept; nothing may be replaced then.
        """
        if name.startswith(_NOT_KEPT):
            return
        try:
            found = kept(self.machine, self.change)
            found["reverted"].pop(self.role, None)
            entries = found["files"]
            now: dict[str, Any] = {"role": self.role, "path": name}
            now["after"] = digest(_bytes(text))
            now["access"] = access and [access.mode, access.user, access.group]
            for entry in entries:
                if (entry["role"], entry["path"]) == (self.role, name):
                    entry.update(now)  # what stood there before this change is kept already
                    break
            else:
                self._make_room(0)
                entries.append({**now, **self._before(name, len(entries))})
            self._write("index.json", as_text(found))
        except OSError as error:
            raise NodeError(f"{name} cannot be kept in {STORE}: {error.strerror}") from error

    def note(self, step: Step) -> None:
        """Keep what a step changes that is no file: a unit's state, or a setting as it was seen."""
        found = kept(self.machine, self.change)
        if step.argv[:1] == ["systemctl"] and step.argv[1] in _OF_UNITS:
            for unit in [word for word in step.argv[2:] if not word.startswith("-")]:
                own = {"role": self.role, "unit": unit, "did": step.argv[1]}
                if not any(own.items() <= each.items() for each in found["units"]):
                    found["units"].append({**own, "before": unit_state(self.machine, unit)})
        elif step.change is not None and step.diff is None and step.do is not with_the_first:
            now = {"role": self.role, **asdict(step.change)}
            same = ("role", "layer", "device", "setting")
            for each in found["changes"]:
                if [each[name] for name in same] == [now[name] for name in same]:
                    each["wanted"] = now["wanted"]
                    break
            else:
                found["changes"].append(now)
        else:
            return
        found["reverted"].pop(self.role, None)
        self._make_room(0)
        self._write("index.json", as_text(found))

    def _before(self, name: str, number: int) -> dict[str, Any]:
        """Return what stands at a path; keep the content of a file."""
        try:
            found = os.lstat(self.machine.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return {"kind": "absent", "directories": self._missing(os.path.dirname(name))}
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
        return {"kind": "file", "content": str(number), "before": digest(data), **own}

    def _missing(self, directory: str) -> list[str]:
        """Return the directories that are to be made for a file, the deepest first."""
        found = []
        while not os.path.isdir(self.machine.path(directory)):
            found.append(directory)
            directory = os.path.dirname(directory)
        return found

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


def digest(data: bytes | None) -> str:
    """Return the SHA-256 of a content, empty for nothing."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
