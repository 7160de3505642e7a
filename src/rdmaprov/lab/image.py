"""The disk images of the lab: kept by what their recipe says, whole or not at all."""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError

RECIPE_PARTS = ("recipe.toml", "image", "standins")
KEY_LENGTH = 12
TORCH_DISK = "2"  # another number if the same words of the recipe make another disk than before

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """What the lab directory says an image is made of."""

    directory: Path
    suite: str

    @property
    def _table(self) -> dict[str, dict[str, object]]:
        return tomllib.loads((self.directory / "recipe.toml").read_text())

    def words(self, section: str, name: str) -> list[str]:
        """Return a list of words of the recipe."""
        value = self._table[section][name]
        return list(value) if isinstance(value, list) else [str(value)]

    def text(self, section: str, name: str) -> str:
        """Return one value of the recipe as text."""
        return str(self._table[section][name])

    def key(self) -> str:
        """Return what changes when the image would: a hash over the recipe and its files."""
        digest = hashlib.sha256(self.suite.encode())
        for path in sorted(self._files()):
            digest.update(f"{path.relative_to(self.directory)}\0".encode())
            digest.update(f"{path.stat().st_mode & 0o111:o}\0".encode())
            digest.update(path.read_bytes())
        return f"{self.suite}-{digest.hexdigest()[:KEY_LENGTH]}"

    def torch_key(self) -> str:
        """Return what changes when the torch disk would."""
        words = [self.text("torch", name) for name in ("requirement", "suite", "python")]
        words += [platform.machine(), TORCH_DISK]
        digest = hashlib.sha256("\0".join(words).encode())
        return f"torch-{digest.hexdigest()[:KEY_LENGTH]}"

    def _files(self) -> Iterator[Path]:
        for part in RECIPE_PARTS:
            root = self.directory / part
            if root.is_file():
                yield root
            # Not the bytecode that pip adds to a wheel: setup.sh leaves it out of the image too.
            yield from (
                path
                for path in root.rglob("*")
                if path.is_file() and path.parent.name != "__pycache__"
            )


class ImageStore:
    """The directory of finished images; what is not finished never has its final name."""

    def __init__(self, directory: Path, say: Say) -> None:
        self.directory = directory
        self._say = say

    def get(self, key: str, what: str, build: Callable[[Path], Path]) -> Path:
        """Return the image of that key, building it first where it is missing or damaged.

        Args:
            build: makes the image inside the directory given and returns its path.
        """
        with self._lock(key):
            self._sweep(key)
            path = self.path(key)
            damage = self._damage(key)
            if damage is None:
                return path
            if path.exists():
                self._say(f"the cached {what} is damaged ({damage}); building it again")
            self._build(key, build)
        return path

    def path(self, key: str) -> Path:
        """Return where the image of that key lies once it is finished."""
        return self.directory / f"{key}.img"

    def record(self, key: str) -> str:
        """Return what tells the finished image of that key from any other build of it."""
        return self._record(key).read_text()

    def purge(self) -> None:
        """Remove every image, and what a killed build left behind."""
        for pattern in ("*.img", "*.json", "*.lock", "*.build-*"):
            for path in self.directory.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with suppress(OSError):  # what is not an image stays
            self.directory.rmdir()

    def _damage(self, key: str) -> str | None:
        """Return what is wrong with a finished image, None if nothing is."""
        try:
            wanted = json.loads(self._record(key).read_text())
            seen = _fingerprint(self.path(key))
        except (OSError, ValueError):
            return "its file or its record cannot be read"
        if seen == wanted:
            return None
        changed = [name for name in seen if seen[name] != wanted.get(name)]
        return f"its {' and '.join(changed)} changed since it was built"

    def _build(self, key: str, build: Callable[[Path], Path]) -> None:
        scratch = self.directory / f"{key}.build-{os.getpid()}"
        scratch.mkdir(mode=0o755)
        try:
            built = build(scratch)
            self._record(key).unlink(missing_ok=True)
            built.replace(self.path(key))
            # Without its record an image counts as damaged, so a kill right here is harmless.
            self._record(key).write_text(json.dumps(_fingerprint(self.path(key))))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _record(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def _sweep(self, key: str) -> None:
        """Remove what a killed build left behind."""
        for scratch in self.directory.glob(f"{key}.build-*"):
            shutil.rmtree(scratch, ignore_errors=True)

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Let one process at a time build an image: the others wait and find it made."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _fingerprint(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"size": stat.st_size, "modification time": stat.st_mtime_ns}


def check_space(directory: Path, mib: int) -> None:
    """Raise RdmaprovError for what would fill the disk: what is there and needed, and a way out."""
    directory.mkdir(parents=True, exist_ok=True)
    free_mib = shutil.disk_usage(directory).free >> 20
    if free_mib < mib:
        raise RdmaprovError(
            f"{directory} has {free_mib} MiB free, and {mib} are needed",
            "Free some space, or name another place: --cache DIRECTORY or --dir DIRECTORY.",
        )
