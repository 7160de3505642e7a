"""The disk images of the lab: built once for each recipe, and never half."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError
from rdmaprov.lab import disk
from rdmaprov.lab.process import run

ROOT_LABEL = "rdmaprov-root"
TORCH_LABEL = "rdmaprov-torch"
BUILD_TIMEOUT_S = 1800.0
FREE_MIB = 8192  # a tree, its archive and the disk made of it, at their largest together
RECIPE_PARTS = ("recipe.toml", "image", "standins")
KEY_LENGTH = 12
TORCH_FREE_MIB = 64
NO_PACKAGES = "Nothing was kept. Can this machine reach Debian's packages? Then run it again."

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
        digest = hashlib.sha256("\0".join([*words, platform.machine()]).encode())
        return f"torch-{digest.hexdigest()[:KEY_LENGTH]}"

    def _files(self) -> Iterator[Path]:
        for part in RECIPE_PARTS:
            root = self.directory / part
            if root.is_file():
                yield root
            yield from (path for path in root.rglob("*") if path.is_file())


class ImageStore:
    """The directory of finished images; what is not finished never has its final name."""

    def __init__(self, directory: Path, say: Say) -> None:
        self.directory = directory
        self._say = say

    def get(self, key: str, what: str, build: Callable[[Path], Path]) -> Path:
        """Return the image of that key, building it first where it is missing or damaged.

        Args:
            key: the image's name in the store.
            what: how to call it in a message.
            build: makes the image inside the directory given and returns its path.

        """
        with self._locked(key):
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
    def _locked(self, key: str) -> Iterator[None]:
        """Let one process at a time build an image: the others wait and find it made."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _fingerprint(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"size": stat.st_size, "modification time": stat.st_mtime_ns}


def check_space(directory: Path, mib: int) -> None:
    """Refuse to start what would fill the disk.

    Raises:
        RdmaprovError: with what is there, what is needed and how to put it elsewhere.

    """
    directory.mkdir(parents=True, exist_ok=True)
    free_mib = shutil.disk_usage(directory).free >> 20
    if free_mib < mib:
        raise RdmaprovError(
            f"{directory} has {free_mib} MiB free, and {mib} are needed",
            "Free some space, or name another place: --cache DIRECTORY or --dir DIRECTORY.",
        )


def _unattended(argv: list[str], *, namespace: bool) -> list[str]:
    """Return argv so that what it starts and mounts ends with this process, however that ends."""
    inner = ["unshare", "--mount", "--fork", "--pid", "--kill-child", *argv] if namespace else argv
    return ["setpriv", "--pdeathsig", "KILL", *inner]


def _temporary(scratch: Path) -> dict[str, str]:
    """Return the environment that keeps a program's temporary files where they are swept."""
    directory = scratch / "tmp"
    directory.mkdir(exist_ok=True)
    return {"TMPDIR": str(directory)}


def _bootstrap(
    suite: str, archive: Path, variant: str, packages: list[str], *more: str
) -> list[str]:
    """Return the command that writes the archive of a Debian tree."""
    return _unattended(
        [
            *("mmdebstrap", f"--variant={variant}", "--format=tar", "--quiet"),
            f"--include={','.join(packages)}",
            *more,
            suite,
            str(archive),
        ],
        # mmdebstrap makes a namespace of its own when it is not run by root.
        namespace=os.geteuid() == 0,
    )


def build_root(recipe: Recipe, scratch: Path) -> Path:
    """Make the factory disk: bootstrap Debian, set it up inside, put it on a bootable disk."""
    check_space(scratch, FREE_MIB)
    archive = scratch / "tree.tar"
    lab = recipe.directory
    build_packages = recipe.words("image", "build_packages")
    source = "/usr/src/rdmaprov-lab"
    run(
        _bootstrap(
            recipe.suite,
            archive,
            "minbase",
            [*recipe.words("image", "packages"), *build_packages],
            *(f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("doc", "man", "locale")),
            "--essential-hook=mkdir -p $1/etc/initramfs-tools/conf.d",
            f"--essential-hook=copy-in {lab}/image/files/etc/initramfs-tools/conf.d/"
            "rdmaprov-lab /etc/initramfs-tools/conf.d",
            f"--customize-hook=mkdir -p $1{source}",
            f"--customize-hook=copy-in {lab}/image {lab}/standins {source}",
            f'--customize-hook=chroot "$1" sh {source}/image/setup.sh',
        ),
        timeout_s=BUILD_TIMEOUT_S,
        env={
            **_temporary(scratch),
            "BUILD_PACKAGES": " ".join(build_packages),
            "KERNEL_COMMAND_LINE": recipe.text("image", "kernel_command_line"),
        },
        hint=NO_PACKAGES,
    )
    image = scratch / "disk.img"
    tree = scratch / "tree"
    tree.mkdir()
    make = [sys.executable, "-m", "rdmaprov.lab.disk", str(archive), str(tree), str(image)]
    make += [ROOT_LABEL, recipe.text("image", "disk_mib")]
    fakeroot = [] if os.geteuid() == 0 else ["fakeroot"]
    run(_unattended([*fakeroot, *make], namespace=False), timeout_s=BUILD_TIMEOUT_S)
    return image


def build_torch(recipe: Recipe, scratch: Path) -> Path:
    """Make the read-only disk with torch's CPU build and a Python of its own that imports it."""
    check_space(scratch, FREE_MIB)
    tree = scratch / "tree"
    python = recipe.text("torch", "python")
    archive = scratch / "python.tar"
    run(
        _bootstrap(recipe.text("torch", "suite"), archive, "extract", [f"python{python}"]),
        timeout_s=BUILD_TIMEOUT_S,
        env=_temporary(scratch),
        hint=NO_PACKAGES,
    )
    tree.mkdir()
    wanted = [f"./usr/bin/python{python}", f"./usr/lib/python{python}", "./usr/lib/python3"]
    run(["tar", "-xf", str(archive), "-C", str(tree), *wanted])
    (tree / "bin").mkdir()
    (tree / "bin/python3").symlink_to(f"../usr/bin/python{python}")
    machine = platform.machine()
    run(
        _unattended(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"),
                *("--target", str(tree / "usr/lib/python3/dist-packages")),
                *("--only-binary=:all:", "--python-version", python, "--implementation", "cp"),
                *("--platform", f"manylinux_2_28_{machine}"),
                *("--platform", f"manylinux2014_{machine}"),
                recipe.text("torch", "requirement"),
            ],
            namespace=False,
        ),
        timeout_s=BUILD_TIMEOUT_S,
        env=_temporary(scratch),
        hint="Is pip here set up to find torch's CPU build? See docs/lab.md, 'torch'.",
    )
    image = scratch / "torch.img"
    used_mib = sum(f.lstat().st_size for f in tree.rglob("*")) >> 20
    disk.make_filesystem(image, tree, TORCH_LABEL, used_mib + used_mib // 4 + TORCH_FREE_MIB)
    return image
