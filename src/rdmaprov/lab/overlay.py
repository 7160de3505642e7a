"""The disk of a node: an overlay on the lab's image, so that a new one costs nothing."""

from __future__ import annotations

from pathlib import Path

from rdmaprov.lab.process import run
from rdmaprov.lab.qemu import DISK

BASE = "disk.base"  # which build of the image the disk lies on


def fits(node_dir: Path, image_record: str) -> bool:
    """Return whether the node has a disk on this very build of the image."""
    base = node_dir / BASE
    return (node_dir / DISK).exists() and base.exists() and base.read_text() == image_record


def make(node_dir: Path, image: Path, image_record: str) -> None:
    """Give the node a new disk; the old one goes, with the states that were saved in it."""
    discard(node_dir)
    (node_dir / BASE).write_text(image_record)
    new = node_dir / "disk.new"
    new.unlink(missing_ok=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(new)])
    new.rename(node_dir / DISK)


def discard(node_dir: Path) -> None:
    """Remove the node's disk: its next start makes a factory-new one."""
    (node_dir / DISK).unlink(missing_ok=True)
