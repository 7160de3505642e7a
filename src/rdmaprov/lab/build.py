"""Building the lab's images: a factory disk that boots, and a disk with torch."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rdmaprov.errors import RdmaprovError
from rdmaprov.lab import disk, tools
from rdmaprov.lab.image import ImageStore, Recipe, Say, check_space
from rdmaprov.lab.process import CommandError, run
from rdmaprov.lab.tools import in_parallel

ROOT_LABEL = "rdmaprov-root"
TORCH_LABEL = "rdmaprov-torch"
TORCH_DIRECTORY = "/opt/rdmaprov-lab/torch"  # as lab/image/setup.sh makes it
BUILD_TIMEOUT_S = 1800.0
FREE_MIB = 8192  # a tree, its archive and the disk made of it, at their largest together
TORCH_FREE_MIB = 64
NO_PACKAGES = "Nothing was kept. Check that this machine reaches Debian's packages; run it again."

Make = Callable[[Recipe, Path, Mapping[str, str]], Path]


def ensure(recipe: Recipe, store: ImageStore, say: Say) -> None:
    """Have both disks of the recipe in the store; what is missing is built side by side."""

    def builder(make: Make, what: str) -> Callable[[Path], Path]:
        def build(scratch: Path) -> Path:
            tools.require(tools.BUILD_TOOLS)
            say(f"building the {what} (once for each recipe; minutes)")
            with _temporary(scratch) as environment:
                return make(recipe, scratch, environment)

        return build

    wanted = [
        (recipe.key(), "node image", build_root),
        (recipe.torch_key(), "torch disk", build_torch),
    ]
    in_parallel(lambda each: store.get(each[0], each[1], builder(each[2], each[1])), wanted)


def _end_with_parent(argv: list[str], *, namespace: bool) -> list[str]:
    """Return argv so that what it starts and mounts ends with this process, however that ends."""
    inner = ["unshare", "--mount", "--fork", "--pid", "--kill-child", *argv] if namespace else argv
    return ["setpriv", "--pdeathsig", "KILL", *inner]


@contextmanager
def _temporary(scratch: Path) -> Iterator[dict[str, str]]:
    """Give the environment that keeps a program's temporary files where they are removed."""
    directory = scratch / "tmp"
    remove = ["rm", "-rf", str(directory)]
    if os.geteuid() != 0:
        # Root of mmdebstrap's user namespace is not this user, whose home keeps others out.
        name = f"rdmaprov-{os.geteuid()}-{scratch.name.partition('.')[0]}"
        directory = Path(tempfile.gettempdir()) / name
        remove = ["unshare", "--map-root-user", "--map-auto", "rm", "-rf", str(directory)]
    directory.mkdir(mode=0o711, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        raise RdmaprovError(
            f"{directory} belongs to another user",
            "Have it removed, or set TMPDIR to another directory.",
        )
    try:
        yield {"TMPDIR": str(directory)}
    finally:
        run(remove)


def _bootstrap(
    suite: str, archive: Path, variant: str, packages: list[str], *more: str
) -> list[str]:
    """Return the command that writes the archive of a Debian tree."""
    return _end_with_parent(
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


def build_root(recipe: Recipe, scratch: Path, environment: Mapping[str, str]) -> Path:
    """Make the factory disk: bootstrap Debian, set it up inside, put it on a bootable disk."""
    check_space(scratch, FREE_MIB)
    archive = scratch / "tree.tar"
    lab = recipe.directory
    build_packages = recipe.words("image", "build_packages")
    source = "/usr/src/rdmaprov-lab"
    spare_packages = " ".join(recipe.words("image", "spare_packages"))
    spare = "$1/usr/lib/rdmaprov-lab/packages"
    run(
        _bootstrap(
            recipe.suite,
            archive,
            "minbase",
            [*recipe.words("image", "packages"), *build_packages],
            *(f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("doc", "man", "locale")),
            "--dpkgopt=force-unsafe-io",  # a build that is cut is thrown away; setup.sh removes it
            "--essential-hook=mkdir -p $1/etc/initramfs-tools/conf.d",
            f"--essential-hook=copy-in {lab}/image/files/etc/initramfs-tools/conf.d/"
            "rdmaprov-lab /etc/initramfs-tools/conf.d",
            f"--customize-hook=mkdir -p $1{source}",
            f"--customize-hook=copy-in {lab}/image {lab}/standins {source}",
            f'--customize-hook=chroot "$1" sh {source}/image/setup.sh',
            # After it: it purges libraries of the build packages that a spare package needs too,
            # such as libjansson4 of gcc and NetworkManager.
            f"--customize-hook=mkdir -p {spare}/partial",
            "--customize-hook=APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -y --download-only "
            f"-o Dir::Cache::archives={spare} install {spare_packages}",
        ),
        timeout_s=BUILD_TIMEOUT_S,
        env={
            **environment,
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
    run(_end_with_parent([*fakeroot, *make], namespace=False), timeout_s=BUILD_TIMEOUT_S)
    return image


def build_torch(recipe: Recipe, scratch: Path, environment: Mapping[str, str]) -> Path:
    """Make the read-only disk with torch's CPU build and a Python of its own that imports it."""
    check_space(scratch, FREE_MIB)
    tree = scratch / "tree"
    python = recipe.text("torch", "python")
    archive = scratch / "python.tar"
    run(
        _bootstrap(recipe.text("torch", "suite"), archive, "extract", [f"python{python}"]),
        timeout_s=BUILD_TIMEOUT_S,
        env=environment,
        hint=NO_PACKAGES,
    )
    tree.mkdir()
    wanted = [f"./usr/bin/python{python}", f"./usr/lib/python{python}", "./usr/lib/python3"]
    run(["tar", "-xf", str(archive), "-C", str(tree), *wanted])
    (tree / "bin").mkdir()
    (tree / "bin/python3").symlink_to(f"../usr/bin/python{python}")
    machine = platform.machine()
    run(
        _end_with_parent(
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
        env=environment,
        hint="Is pip here set up to find torch's CPU build? See docs/lab.md, 'torch'.",
    )
    _compile_python(tree, python)
    image = scratch / "torch.img"
    used_mib = sum(f.lstat().st_size for f in tree.rglob("*")) >> 20
    disk.make_filesystem(image, tree, TORCH_LABEL, used_mib + used_mib // 4 + TORCH_FREE_MIB)
    return image


def _compile_python(tree: Path, version: str) -> None:
    """Add the bytecode of all of a tree's Python sources, if this machine has that Python.

    Nodes cannot write to the disk, and without it an emulated processor compiles torch's sources
    at every import: half a minute instead of ten seconds.
    """
    same = f"{sys.version_info.major}.{sys.version_info.minor}" == version
    python = sys.executable if same else shutil.which(f"python{version}")
    if python is None:
        return
    with suppress(CommandError):  # some of what torch brings is not meant for this version
        run(
            [
                *(python, "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode"),
                *("unchecked-hash", "-s", str(tree), "-p", TORCH_DIRECTORY, str(tree)),
            ],
            timeout_s=BUILD_TIMEOUT_S,
        )
