"""The initramfs of each installed kernel: what modprobe would read in it. Runs on the node.

An initramfs has copies of modules and of modprobe.d, made when it was built, and a module that
it loads never sees a newer file. Looking into one takes seconds; what was seen is kept on the
node beside the file's size and time, so that only an initramfs that changed is looked into again.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, replace

from ..machine import Machine, NodeError
from ..plan import NotYet
from . import modprobe

SEEN = "/var/lib/rdmaprov/initramfs.json"
DRACUT_CONFIGURATION = "/etc/dracut.conf.d/rdmaprov.conf"
BUILD_TIMEOUT_S = 1800
_MEMORY = "/dev/shm"  # noqa: S108 (a directory of our own is made in it)


@dataclass(frozen=True)
class Inside:
    """What an initramfs has."""

    file: str  # size and time of the file that was looked into
    own: str  # text of our modprobe.d file in it; empty for none
    modules: list[str]
    options: dict[str, dict[str, str]]  # by module, parameter and value that modprobe gives there


@dataclass(frozen=True)
class Image:
    """The initramfs of one kernel."""

    path: str
    kernel: str
    inside: Inside


def images(machine: Machine, own: str) -> list[Image]:
    """Return the initramfs of each installed kernel: a boot may take any of them.

    Raises:
        NodeError: one cannot be looked into.
    """
    kept = _cache(machine)
    found = []
    for kernel in machine.names("/lib/modules"):
        for path in (f"/boot/initrd.img-{kernel}", f"/boot/initramfs-{kernel}.img"):
            if not machine.exists(path):
                continue
            inside = kept.get(path)
            if inside is None or inside.file != _file(machine, path):
                inside = _asked(machine, path, own)
            found.append(Image(path, kernel, inside))
    return found


def is_kept(machine: Machine, images: list[Image]) -> bool:
    """Return whether what was seen in all of them is on record."""
    return _cache(machine) == {image.path: image.inside for image in images}


def was_looked_into(machine: Machine) -> bool:
    """Return whether there is a record of any."""
    return machine.exists(SEEN)


def keep(machine: Machine, images: list[Image]) -> None:
    """Record what was seen, for the next plan to be quick."""
    text = json.dumps({image.path: asdict(image.inside) for image in images}, indent=1)
    machine.write(SEEN, text + "\n", 0o600)


def look_inside(machine: Machine, path: str, own: str) -> Inside:
    """Unpack an initramfs into memory, and return what it has; raise NodeError if that fails."""
    file = _file(machine, path)
    os.makedirs(machine.path(_MEMORY), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rdmaprov-", dir=machine.path(_MEMORY)) as directory:
        _unpack(machine, path, directory)
        tree = _tree(directory)
        values: dict[str, dict[str, str]] = {}
        for option in modprobe.options(tree):
            values.setdefault(option.module, {})[option.parameter] = option.value
        return Inside(file, tree.read(own) or "", _modules(directory), values)


def rebuild(machine: Machine, image: Image, own: str) -> Image:
    """Make an initramfs anew, whole or not at all, and return what it then has.

    Raises:
        NodeError: it cannot be made; the old one still stands.
    """
    if machine.has("update-initramfs"):
        # Makes a new file beside the old one, and renames it.
        machine.run(["update-initramfs", "-u", "-k", image.kernel], timeout_s=BUILD_TIMEOUT_S)
    else:
        # dracut copies its result over the old file, which a cut would leave half written.
        fresh = f"{image.path}.rdmaprov"
        machine.run(["dracut", "--force", fresh, image.kernel], timeout_s=BUILD_TIMEOUT_S)
        os.replace(machine.path(fresh), machine.path(image.path))
    machine.run(["sync", "-f", machine.path(image.path)])
    return replace(image, inside=look_inside(machine, image.path, own))


def builder(machine: Machine) -> str:
    """Return the program that makes an initramfs here; raise NotYet if there is none."""
    for program in ("update-initramfs", "dracut"):
        if machine.has(program):
            return program
    raise NotYet(
        "neither update-initramfs nor dracut is installed, so the initramfs cannot be rebuilt"
    )


def _unpack(machine: Machine, path: str, directory: str) -> None:
    image = machine.path(path)
    if machine.has("unmkinitramfs"):
        machine.run(["unmkinitramfs", image, directory])
    elif machine.has("lsinitrd"):
        machine.run(["env", "-C", directory, "lsinitrd", "--unpack", image])
    else:
        raise NodeError(
            f"{path}: its contents are unknown: neither unmkinitramfs nor lsinitrd is "
            "installed; write mlx5_initramfs: never if nothing in it matters"
        )


def _asked(machine: Machine, path: str, own: str) -> Inside:
    return Inside(**machine.ask(f"inside {path}", lambda: asdict(look_inside(machine, path, own))))


def _tree(directory: str) -> Machine:
    """Return the file system in what was unpacked: beside microcode, and on Ubuntu modules."""
    for each in [directory, *(os.path.join(directory, name) for name in os.listdir(directory))]:
        if os.path.isdir(os.path.join(each, "etc")):
            return Machine(each)
    return Machine(directory)


def _modules(root: str) -> list[str]:
    found = set()
    for _, _, files in os.walk(root):
        for file in files:
            module = re.fullmatch(r"(.+)\.ko(\.(xz|zst|gz))?", file)
            if module:
                found.add(modprobe.name(module.group(1)))
    return sorted(found)


def _file(machine: Machine, path: str) -> str:
    stamp = machine.stamp(path)
    if stamp is None:
        raise NodeError(f"there is no {path} any more")
    return f"{stamp[0]} bytes {stamp[1]} ns"


def _cache(machine: Machine) -> dict[str, Inside]:
    try:
        kept = json.loads(machine.read(SEEN) or "{}")
        return {path: Inside(**inside) for path, inside in kept.items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # a record of another version: look again
