"""The labs of the tests, kept between runs with the factory and the provisioned state of nodes.

A lab that is kept is of one image, one set of roles, plugins and playbooks, and one inventory: a
change to any of them has another key, and the next run makes its lab anew.
"""

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO

from tests.lab.handle import FACTORY, PROVISIONED, LabHandle

from rdmaprov.lab.image import Recipe
from rdmaprov.lab.layout import default_cache
from rdmaprov.lab.model import DEFAULT_SUITE, Lab

ROOT = Path(__file__).resolve().parents[2]
# What makes of a factory node a provisioned one.
PARTS = ("roles", "plugins", "playbooks", "inventory/lab")
OF_ONE_LAB = "hosts.yml"  # in a site: its nodes' ports and keys
STATES = frozenset({FACTORY, PROVISIONED})


def key(root: Path) -> str:
    """Return what changes when a checkout's image, roles, plugins, playbooks or inventory do."""
    recipe = Recipe(root / "lab", DEFAULT_SUITE)
    digest = hashlib.sha256(f"{recipe.key()} {recipe.torch_key()}".encode())
    for part in PARTS:
        for path in sorted((root / part).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.name != OF_ONE_LAB:
                digest.update(f"\0{path.relative_to(root)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def directory() -> Path:
    return default_cache().with_name("lab-of-tests")


@contextmanager
def kept_lab(
    within: Path, own_key: str, at_large: Callable[[Path], None], *, fresh: bool = False
) -> Iterator[LabHandle]:
    """Provide a lab of this key in the factory state that no other process uses; then keep it."""
    with _free_slot(within) as slot:
        lab, key_file = LabHandle(slot / "lab", slot / "site"), slot / "key"
        at_large(lab.directory)
        if fresh or not _has(key_file, own_key) or not _resume(lab):
            key_file.unlink(missing_ok=True)
            lab.must("down")
            lab.site.mkdir(exist_ok=True)
            lab.must("up", "--site", str(lab.site))
            lab.keep(FACTORY)
            key_file.write_text(own_key)
        try:
            yield lab
        finally:
            lab.disconnect()
            lab.stop()


@contextmanager
def _free_slot(within: Path) -> Iterator[Path]:
    within.mkdir(parents=True, exist_ok=True)
    for number in count():
        with (within / f"{number}.lock").open("w") as lock:
            if _is_locked(lock):
                slot = within / str(number)
                slot.mkdir(exist_ok=True)
                yield slot
                return


def _is_locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _has(key_file: Path, own_key: str) -> bool:
    return key_file.exists() and key_file.read_text() == own_key


def _resume(lab: LabHandle) -> bool:
    """Bring the nodes of a kept lab to the factory state; return whether that went well."""
    known = Lab.load(lab.layout.state)
    if known is None or FACTORY not in {state.name for state in known.saved}:
        return False
    if lab.rdmaprov("restore", FACTORY).returncode != 0:
        return False  # another QEMU, or a disk that is damaged
    lab.adopt(STATES)
    return True
