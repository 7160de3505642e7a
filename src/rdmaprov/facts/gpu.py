"""NVIDIA GPUs as their driver shows them, and what runs beside it: fabric manager, IMEX.

Sources: `man nvidia-smi`; NVIDIA's Fabric Manager user guide; its IMEX guide ("Deployment Models");
nvml.h, NVML_GPU_FABRIC_HEALTH_*; nvidia-fabricmanager-start.sh of driver 570 and later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rdmaprov.boundary import shown
from rdmaprov.facts.errors import CouldNotTell, NotInstalled
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, read_files, run_program, whole

QUERY = "nvidia-smi -q"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
FABRIC_MANAGER = "nvidia-fabricmanager.service"
IMEX = "nvidia-imex.service"
PERSISTENCE = "nvidia-persistenced.service"
CHANNELS = "/dev/nvidia-caps-imex-channels"
UMAD = "ib_umad"
# What loads a module at boot: systemd, rdma-core by udev, openibd, a unit, a soft dependency.
UMAD_AT_BOOT = (
    "/etc/modules",
    "/etc/modules-load.d/*.conf",
    "/run/modules-load.d/*.conf",
    "/usr/lib/modules-load.d/*.conf",
    "/usr/local/lib/modules-load.d/*.conf",
    "/etc/rdma/modules/*.conf",
    "/etc/infiniband/openib.conf",
    "/etc/modprobe.d/*.conf",
    "/etc/udev/rules.d/*.rules",
    "/etc/systemd/system/nvidia-fabricmanager.service*/*.conf",
    "/etc/systemd/system/*fabricmanager.service",
    "/usr/lib/systemd/system/*fabricmanager.service",
)
_LOADS_UMAD = re.compile(r"\bib[_-]umad\b|^\s*UMAD_LOAD\s*=\s*[\"']?(?i:yes|y|1)\b")
_LOADS_NOT = re.compile(r"\s*([#;]|blacklist\b|options\b|install\b)")
# By line of the section Health, what a healthy GPU shows. Drivers before 570 have no such section.
_HEALTHY = {
    "summary": "Healthy",
    "bandwidth": "Full",
    "route recovery in progress": "False",
    "route unhealthy": "False",
    "access timeout recovery": "False",
    "incorrect configuration": "None",
}
_UP = re.compile(r"(?m)^Domain State: (\w+)$")
# How long GPUs may take to register with their fabric after a boot; our choice. nvml.h,
# NVML_GPU_FABRIC_STATE_*; on 214 nodes none took longer: NVIDIA/NVSentinel 1701.
REGISTERING, REGISTERS_S = ("Not Started", "In Progress"), 900
JOINED = "Completed, Success"  # its state and status, once it has
_ILL = ("Unhealthy", "Limited Capacity", "Degraded", "True")
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
# The driver container of NVIDIA's GPU Operator has the driver's programs in a tree of its own.
_CONTAINER = "/run/nvidia/driver"
_LIBRARIES = " ".join(f"{root}/usr/lib64 {root}/usr/lib/*-linux-gnu" for root in (_CONTAINER, ""))
_LIBRARIES += " /usr/local/nvidia/lib64"  # where Container-Optimized OS has it
_LEVEL = 4  # blanks of a level of the query's output
NOT_SUPPORTED = ("N/A", "[N/A]", "Not Supported", "[Not Supported]")
# What `nvidia-smi nvlink -e` calls an error. Up to Hopper, a link corrects the first kinds itself,
# and a bit error ratio of 10⁻¹², as ports are judged by, makes 720 an hour at 25 GB/s; Blackwell's
# are behind its FEC. Not among them: FEC, Raw and BER lines, which a healthy B300 counts too
# (driver 595), traffic, Tx discards, and totals of what has a line of its own.
_CORRECTED, MOST_CORRECTED, MOST_ERRORS = "CRC|Replay", 1000, 1  # an hour; our choice
_NVLINK_ERROR = re.compile(
    rf"\s+Link (\d{{1,3}}): (((?:{_CORRECTED})(?: Flit| Data)? Errors)|(?:Recovery|Malformed packet"
    r"|Buffer overrun|Rx|Rx remote|Rx General|Local link integrity|Effective|Symbol) Errors"
    r"|Link recovery (?:successful|failed) events): (\d{1,20})"
)
FULL_COUNTER = 0xFFFF  # where Volta's counters stop
_BUS_ID = re.compile(r"([0-9A-F]{4,8}):([0-9A-F]{2}:[0-9A-F]{2}\.[0-7])", re.IGNORECASE)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Gpu:
    """What the driver shows of a GPU."""

    address: str  # its PCI address, as sysfs has it
    values: Mapping[str, str]  # by path, such as `ecc mode/current`, what stands there

    def is_on(self, path: str) -> bool | None:
        """Return whether a setting is on; None if the GPU does not have it.

        Raises:
            CouldNotTell: the driver shows no such line, or another word there.
        """
        words = {"Enabled": True, "Yes": True, "Disabled": False, "No": False}
        text = self.text(path)
        if text is None:
            return None
        if text not in words:
            raise CouldNotTell(f"{self.address}: {QUERY} shows {shown(text)!r} as {path}")
        return words[text]

    def text(self, path: str) -> str | None:
        """Return what stands at a path, in small letters; None if the GPU does not have it.

        Raises:
            CouldNotTell: the driver shows no such line.
        """
        if path not in self.values:
            raise CouldNotTell(f"{self.address}: {QUERY} shows no {path}")
        return None if self.values[path] in NOT_SUPPORTED else self.values[path]

    @property
    def has_fabric(self) -> bool:
        """Return whether it is part of an NVLink fabric, be it registered or not."""
        return self.values.get("fabric/state", "N/A") not in NOT_SUPPORTED

    def fabric_faults(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of its NVLink's health that are not as they must be: seen, expected.

        Raises:
            CouldNotTell: the driver shows a word that says neither.
        """
        for name, healthy in _HEALTHY.items():
            seen = self.values.get(f"fabric/health/{name}", "N/A")
            if seen in (*NOT_SUPPORTED, healthy):
                continue
            # Each other text of it names a fault, of which drivers have had more and more.
            named = name == "incorrect configuration" and not re.search(r"(?i)unknown|err", seen)
            if seen not in _ILL and not named:
                raise CouldNotTell(f"{self.address}: {QUERY} shows {shown(seen)!r} as {name}")
            yield f"{name}: {seen}", f"{name}: {healthy}"

    @property
    def cluster(self) -> str:
        """Return the cluster and clique that it reaches by NVLink, empty for none."""
        cluster, clique = self.text("fabric/clusteruuid"), self.text("fabric/cliqueid")
        return "" if cluster in (None, NO_CLUSTER) else f"cluster {cluster} clique {clique}"


class NvlinkErrors(NamedTuple):
    """A counter of a link since the driver was loaded; how many an hour a good link may have."""

    name: str
    errors: int
    most: int


@dataclass(frozen=True)
class Driver:
    """The running driver's version, and its GPUs in its order."""

    version: str
    gpus: tuple[Gpu, ...]


def read(host: Host) -> Driver:
    """Return the driver and its GPUs."""
    return parse(_output(host, "nvidia-smi", "-q"))


@remember
def parse(text: str) -> Driver:
    """Return what `nvidia-smi -q` printed: lines NAME : VALUE, indented below their section."""
    version = ""
    gpus: list[tuple[str, dict[str, str]]] = []
    sections: list[str] = []
    for line in text.splitlines():
        body = line.strip()
        name, colon, value = body.partition(" : ")
        depth = (len(line) - len(line.lstrip(" "))) // _LEVEL
        if line.startswith("GPU ") and (found := _BUS_ID.fullmatch(body[4:])):
            gpus.append((f"{int(found[1], 16):04x}:{found[2].lower()}", {}))
        elif not depth:
            version = value.strip() if name.rstrip() == "Driver Version" else version
        elif not colon:
            sections[depth - 1 :] = [body.lower()]
        elif gpus:
            path = [*sections[: depth - 1], name.rstrip().lower()]
            # A section that ends again, such as of each process, keeps its first value.
            gpus[-1][1].setdefault("/".join(path), value.strip())
    if not _VERSION.fullmatch(version) or not gpus:
        raise CouldNotTell(f"{QUERY} shows {shown(text.strip())!r}, not a driver with its GPUs")
    return Driver(version, tuple(Gpu(address, values) for address, values in gpus))


def nvlinks(host: Host) -> list[tuple[str, tuple[float, ...]]]:
    """Return what `parse_nvlinks` does of the node's GPUs, in the driver's order."""
    return parse_nvlinks(_output(host, "nvidia-smi", "nvlink -s"))


def parse_nvlinks(text: str) -> list[tuple[str, tuple[float, ...]]]:
    """Return each GPU's model, and the rates in GB/s of its NVLinks that are up."""
    found: list[tuple[str, tuple[float, ...]]] = []
    for line in text.splitlines():
        if head := re.fullmatch(r"GPU \d+: (.+?)(?: \(UUID: [^()]*\))?", line.strip()):
            found.append((head[1], ()))
        elif found and (link := re.fullmatch(r"\s+Link \d+: (\d{1,4}(?:\.\d{1,4})?) GB/s", line)):
            found[-1] = (found[-1][0], (*found[-1][1], float(link[1])))
        elif line.strip() and not re.search(
            r"(?i)<inactive>|links are inactive|not supported", line
        ):
            raise CouldNotTell(f"nvidia-smi nvlink -s shows {shown(line.strip())!r}")
    return found


def nvlink_errors(host: Host) -> list[list[NvlinkErrors]]:
    """Return what `parse_nvlink_errors` does of the node's GPUs, in the driver's order."""
    return parse_nvlink_errors(_output(host, "nvidia-smi", "nvlink -e"))


def parse_nvlink_errors(text: str) -> list[list[NvlinkErrors]]:
    """Return of each GPU what its NVLinks count of errors; none where the driver prints none."""
    found: list[list[NvlinkErrors]] = []
    for line in text.splitlines():
        if re.match(r"GPU \d+: ", line):
            found.append([])
        elif found and (row := _NVLINK_ERROR.fullmatch(line.rstrip())):
            most = MOST_CORRECTED if row[3] else MOST_ERRORS
            found[-1].append(NvlinkErrors(f"NVLink {row[1]} {row[2]}", int(row[4]), most))
    return found


def libraries(host: Host) -> dict[str, tuple[str, int]]:
    """Return the driver's libraries by path, each with its version and its size in bytes.

    Raises:
        CouldNotTell: one is not where distributions and the driver's container have it.
    """
    names = "'(' -name libcuda.so.1 -o -name libnvidia-ml.so.1 ')'"
    find = f"find -L {_LIBRARIES} -maxdepth 1 -type f {names} -printf '%s %p '"
    printed = host.run(f"{find} -exec readlink -f '{{}}' ';' 2> /dev/null; echo {END}").stdout
    rows = re.findall(r"(?m)^(\d+) (\S+) (\S+)$", whole(printed, "libraries"))
    # Where the driver is in a container, what the distribution has is of no use.
    rows = [row for row in rows if row[1].startswith(_CONTAINER)] or rows
    if len({path.rpartition("/")[2] for _, path, _ in rows}) < 2:
        raise CouldNotTell("libcuda.so.1 and libnvidia-ml.so.1 of the driver were not both found")
    return {path: (real.partition(".so.")[2], int(size)) for size, path, real in rows}


def fabric_manager_version(host: Host) -> str:
    """Return the version of the fabric manager that is installed."""
    text = _output(host, "nv-fabricmanager", "--version").strip()
    found = re.fullmatch(r"Fabric Manager version is\s*:\s*(\S+)", text)
    if found is None or not _VERSION.fullmatch(found[1]):
        raise CouldNotTell(f"nv-fabricmanager --version shows {shown(text)!r}, not a version")
    return found[1]


def runs(host: Host, name: str) -> bool:
    """Return whether a process of that name runs, be it in a container."""
    # The kernel cuts a process's name at 15 characters.
    command = f"grep -hsx {name[:15]} /proc/[0-9]*/comm; echo {END}"
    return bool(whole(host.run(command).stdout, "names of processes"))


def loads_umad(host: Host) -> bool:
    """Return whether a boot loads ib_umad, by anything that is known to."""
    lines = "".join(read_files(host, *UMAD_AT_BOOT).texts.values()).splitlines()
    return any(_LOADS_UMAD.search(each) and not _LOADS_NOT.match(each) for each in lines)


def imex_state(host: Host) -> tuple[str, list[str]]:
    """Return the state of the node's IMEX daemon, and the nodes that are not READY with theirs."""
    own = _output(host, "nvidia-imex-ctl", "-q").strip()
    text = _output(host, "nvidia-imex-ctl", "-N")
    states, domain = re.findall(r"(?m)^Node #\d+ *- (\S+) *- (\S+)", text), _UP.search(text)
    if not states or domain is None:
        raise CouldNotTell(f"nvidia-imex-ctl -N shows {shown(text.strip()[-80:])!r}")
    others = [f"{name} is {state}" for name, state in states if state != "READY"]
    return own, others or ([] if domain[1] == "UP" else [f"the domain is {domain[1]}"])


def imex_nodes(host: Host) -> tuple[str, ...]:
    """Return the addresses of the nodes that IMEX connects; none if nothing lists them."""
    text = read_files(host, NODES).get(NODES) or ""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def _output(host: Host, name: str, option: str) -> str:
    """Return what a program of the driver's printed, in the driver's container if that has it."""
    there = f"[ -x {_CONTAINER}/usr/bin/{name} ]"
    try:
        done = run_program(host, f"$({there} && echo chroot {_CONTAINER}) {name} {option}")
    except NotInstalled as error:
        raise NotInstalled(f"{name}: not installed") from error
    if done.rc != 0:
        raise CouldNotTell(f"{name} {option}: exit code {done.rc}: {shown(done.last)}")
    return done.stdout
