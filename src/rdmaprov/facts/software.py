"""Software of a node: kernel modules that run and are on disk, packages, Python with torch."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.facts.errors import CouldNotTell, NotInstalled
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, output, parse_json, run_program, whole
from rdmaprov.inventory import Node

# The RDMA stack, and what stands on it.
STACK = (
    "mlx5_core",
    "mlx5_ib",
    "ib_core",
    "ib_uverbs",
    "rdma_cm",
    "rdma_ucm",
    "ib_umad",
    "mlx_compat",
    "rdma_rxe",
    "nvidia",
    "nvidia_peermem",
)
# Without it nothing is known of what is on disk: no difference, and no agreement.
_NO_MODINFO = "modinfo is not installed"
_HAS_MODINFO = f"command -v modinfo > /dev/null || echo '{_NO_MODINFO}'; "
# Others that hook into it are found: what holds ib_core.
_MODULES = (
    f"{_HAS_MODINFO}for m in {' '.join(STACK)} $(ls /sys/module/ib_core/holders 2> /dev/null); do "
    'd=/sys/module/$m; [ -e "$d" ] || continue; '
    'echo "$m|$(cat "$d/version" 2> /dev/null)|$(cat "$d/srcversion" 2> /dev/null)'
    '|$(modinfo -F version "$m" 2> /dev/null)|$(modinfo -F srcversion "$m" 2> /dev/null)'
    f'|$(modinfo -n "$m" 2> /dev/null)"; done; echo {END}'
)
_DRIVERS = (
    f"{_HAS_MODINFO}"
    "for k in /lib/modules/*/modules.dep; do k=${k%/modules.dep}; k=${k##*/}; "
    '[ -e "/boot/vmlinuz-$k" ] || continue; '
    f'echo "$k|$(modinfo -k "$k" -n mlx5_core 2> /dev/null)"; done; echo {END}'
)
_PATTERNS = (
    "rdma-core",
    "ibverbs-*",
    "libibverbs*",
    "rdmacm-*",
    "librdmacm*",
    "perftest",
    "doca-*",
    "mlnx-*",
    "ofed-*",
    "linux-image-*",
    "kernel-core",
    "nvidia-*",
    "libnccl2",
)
_PACKAGES = (
    "if command -v dpkg-query > /dev/null; then "
    "dpkg-query -W -f '${Package}|${Version}|${db:Status-Want}|${db:Status-Status}\\n' "
    f"{' '.join(map(shlex.quote, _PATTERNS))} 2> /dev/null; "
    "else rpm -qa --qf '%{NAME}|%{VERSION}-%{RELEASE}|install|installed\\n' "
    f"{' '.join(map(shlex.quote, _PATTERNS))}; fi; echo {END}"
)
# MLNX_EN is MLNX_OFED without InfiniBand; a customer's or internal build has a suffix.
_OFED = re.compile(
    r"(MLNX_OFED_LINUX|MLNX_EN_LINUX|mlnx-en|OFED[-\w]*?)-(\d+)(\.\d+-[\d.]+\d)"
    r"(?:[-.][A-Za-z][\w.-]*)?:?"
)
_FIRST_DOCA = 23  # DOCA's first OFED was 23.04
_VERSIONS = """\
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Module:
    """A module that is loaded, and what a boot would load."""

    version: str  # empty where a module has none, as the kernel's own do
    source: str  # the checksum of what it was built from, `srcversion`
    disk_version: str
    disk_source: str
    path: str


@dataclass(frozen=True)
class Package:
    """A package: version, whether it is on hold, and whether it is installed whole."""

    version: str
    held: bool
    whole: bool


def modules(host: Host, *, on_disk: bool = False) -> Mapping[str, Module]:
    """Return the modules of the RDMA stack that are loaded.

    Args:
        on_disk: whether what is on disk matters, too, for which modinfo must be there.
    """
    return parse_modules(_of_modinfo(host, _MODULES, "modules", on_disk=on_disk))


@remember
def parse_modules(body: str) -> Mapping[str, Module]:
    """Return what `modules` prints: NAME|VERSION|SRCVERSION|, the same on disk, and the path."""
    found = {}
    for line in body.splitlines():
        parts = line.split("|")
        if len(parts) != 6:
            raise CouldNotTell(f"modules: {line[:80]!r} has {len(parts)} parts, not 6")
        name, *rest = (part.strip() for part in parts)
        found[name] = Module(rest[0], rest[1], rest[2], rest[3], rest[4])
    return found


def _of_modinfo(host: Host, command: str, what: str, *, on_disk: bool = True) -> str:
    body = whole(host.run(command).stdout, what)
    if on_disk and body.startswith(_NO_MODINFO):
        raise NotInstalled(f"{what} on disk: {_NO_MODINFO}", "apt-get install kmod")
    return body.removeprefix(f"{_NO_MODINFO}\n")


def drivers_on_disk(host: Host) -> dict[str, str]:
    """Return by kernel that a boot may start the file of its mlx5_core, empty if it has none."""
    found = {}
    for line in _of_modinfo(host, _DRIVERS, "kernels").splitlines():
        kernel, bar, path = line.partition("|")
        if not bar:
            raise CouldNotTell(f"kernels: {line[:80]!r} is not KERNEL|DRIVER")
        found[kernel] = path.strip()
    return found


def packages(host: Host) -> Mapping[str, Package]:
    """Return the RDMA stack's packages, the kernel's and the GPU driver's, by name."""
    return parse_packages(whole(host.run(_PACKAGES).stdout, "packages"))


@remember
def parse_packages(body: str) -> Mapping[str, Package]:
    """Return what `packages` prints: NAME|VERSION|WANTED|STATUS."""
    found = {}
    for line in body.splitlines():
        parts = line.split("|")
        if len(parts) != 4:
            raise CouldNotTell(f"packages: {line[:80]!r} has {len(parts)} parts, not 4")
        name, version, wanted, status = parts
        if status in ("not-installed", "config-files"):
            continue
        found[name] = Package(version, wanted == "hold", status == "installed")
    return found


@dataclass(frozen=True)
class Ofed:
    """What `ofed_info -s` says: "doca" or "mlnx_ofed", and the version of OFED."""

    flavour: str
    version: str


def ofed(host: Host) -> Ofed | None:
    """Return the vendor's OFED, None for a node with the kernel's own drivers."""
    try:
        return parse_ofed(output(host, "ofed_info -s"))
    except NotInstalled:
        return None


@remember
def parse_ofed(text: str) -> Ofed:
    """Return what `ofed_info -s` printed.

    DOCA's says OFED-internal-25.07-0.9.7: where MLNX_OFED's says MLNX_OFED_LINUX-24.10-1.1.4.0:,
    and a MLNX_OFED before DOCA may say OFED-internal-4.7-3.2.9.
    """
    found = _OFED.fullmatch(text.strip())
    if found is None:
        raise CouldNotTell(f"ofed_info -s shows {text.strip()[:60]!r}, not a version")
    is_doca = found[1].startswith("OFED") and int(found[2]) >= _FIRST_DOCA
    return Ofed("doca" if is_doca else "mlnx_ofed", found[2] + found[3])


def python_packages(host: Host, python: str, names: tuple[str, ...]) -> Mapping[str, str | None]:
    """Return the versions that a Python's packages say of themselves; None for one it lacks."""
    command = " ".join(map(shlex.quote, (python, "-I", "-c", _VERSIONS, *names)))
    done = run_program(host, command)
    if done.rc != 0:
        raise CouldNotTell(f"{python}: {done.last} (exit code {done.rc})")
    found: Any = parse_json(done.stdout, python)
    if not isinstance(found, dict) or set(found) != set(names):
        raise CouldNotTell(f"{python}: {done.stdout[:60]!r} is not a list of versions")
    return found


def is_program(host: Host, path: str) -> bool:
    """Return whether there is a program of this path."""
    return host.run(f"test -x {shlex.quote(path)}").rc == 0


def is_version(version: str, wanted: str) -> bool:
    """Return whether a version is the wanted one; +cpu and the like count only if asked for.

    Source: PEP 440, version matching.
    """
    return version == wanted or ("+" not in wanted and version.partition("+")[0] == wanted)


def python_of(node: Node) -> str:
    """Return the Python that the site has torch in, empty where it is in none of the node's."""
    kind = node.get("torch_runtime_kind")
    if kind == "interpreter":
        return str(node.get("torch_runtime_python"))
    return f"{node.get('torch_runtime_directory').rstrip('/')}/bin/python" if kind == "venv" else ""
