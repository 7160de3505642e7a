"""A file system of a few kilobytes, for tests of what happens when it is full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.helpers.shell import execute

SIZE_BYTES = 1 << 20


@dataclass(frozen=True)
class FullDisk:
    path: Path

    def leave(self, free_bytes: int) -> None:
        """Leave so much space; files without content need none."""
        filler = os.open(self.path / "filler", os.O_WRONLY | os.O_CREAT)
        os.ftruncate(filler, 0)
        taken = sum(path.stat().st_blocks for path in self.path.rglob("*")) * 512
        os.posix_fallocate(filler, 0, SIZE_BYTES - taken - free_bytes)
        os.close(filler)


@contextmanager
def full_disk(path: Path) -> Iterator[FullDisk]:
    path.mkdir()
    mounted = execute(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "rdmaprov-test", str(path)]
    )
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.strip()}")
    try:
        disk = FullDisk(path)
        disk.leave(0)
        yield disk
    finally:
        subprocess.run(["umount", str(path)], check=True)
