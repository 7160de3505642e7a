"""Where the lab keeps its files, and the one lock that serialises what changes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError


@dataclass(frozen=True)
class Layout:
    """The directories of one lab.

    root holds what lives as long as the lab: keys, disks of the nodes, sockets, records.
    cache holds what every lab of this user shares: images, and what is known of the machine.
    """

    root: Path
    cache: Path

    @property
    def state(self) -> Path:
        """The file that describes the lab."""
        return self.root / "lab.json"

    @property
    def switch(self) -> Path:
        """The directory of the switch's sockets."""
        return self.root / "switch"

    def node(self, name: str) -> Path:
        """Return the directory of one node."""
        return self.root / "nodes" / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lab's lock: one command at a time changes the lab.

        Raises:
            RdmaprovError: another command holds it.

        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.root.parent / f".{self.root.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RdmaprovError(
                    f"another command is changing the lab in {self.root}",
                    "Wait for it to end, or end it, and run this again.",
                ) from None
            yield


def _xdg(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default) / "rdmaprov"


def default_root() -> Path:
    """Return the directory of the user's lab."""
    return _xdg("XDG_STATE_HOME", ".local/state") / "lab"


def default_cache() -> Path:
    """Return the directory of the user's images."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "lab"
