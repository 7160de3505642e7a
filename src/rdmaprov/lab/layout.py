"""Where the lab keeps its files, and the one lock that serialises what changes it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError


@dataclass(frozen=True)
class Layout:
    """The directories of one lab.

    root holds what lives as long as the lab: keys, disks of the nodes, sockets, records.
    cache holds what every lab of this user shares: images.
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

    @property
    def _marker(self) -> Path:
        return self.root / ".rdmaprov-lab"

    def claim(self) -> None:
        """Make the root the lab's own.

        Raises:
            UsageError: it holds somebody else's files, which `lab down` would remove.
        """
        if not self._marker.exists() and self.root.exists() and any(self.root.iterdir()):
            raise UsageError(
                f"{self.root} holds files that are not a lab's",
                "Name an empty directory, or one that does not exist yet: --dir DIRECTORY",
            )
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._marker.touch()

    def release(self) -> bool:
        """Remove the root and all in it; False when it is not there or not the lab's."""
        if not self._marker.exists():
            return False
        for entry in self.root.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry != self._marker:
                entry.unlink()
        self._marker.unlink()  # last: what was interrupted is still the lab's
        self.root.rmdir()
        return True

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lab's lock, or raise RdmaprovError: one command at a time changes the lab."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
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
