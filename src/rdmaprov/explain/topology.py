"""What `nvidia-smi topo -m` says: how GPUs reach each other, and how far each is from a NIC."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.words import quantity, some

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,8}m")
_NIC = re.compile(r"^\s*(NIC\d{1,3}): (\S{1,64})")
_GPU = re.compile(r"GPU\d{1,3}")
_LINK = re.compile(r"X|NV\d{1,2}|SYS|NODE|PHB|PXB|PIX|NS|N/A")
# From near to far (legend of nvidia-smi topo -m).
_DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
_MOST_NAMES = 256
# NCCL_NET_GDR_LEVEL (NCCL's user guide): without it NCCL uses GPUDirect RDMA up to PXB.
_NEAR = {"PIX", "PXB"}


@dataclass(frozen=True)
class GpuTopology:
    """What reaches what."""

    links: Mapping[tuple[str, str], str]  # by pair of names, such as NV18 or PIX
    gpus: tuple[str, ...]
    nics: Mapping[str, str]  # names of NICs, as the RDMA device where the legend has it

    def nearest(self, gpu: str) -> str:
        """Return how far the nearest NIC of a GPU is, empty without a NIC."""
        found = {self.links.get((gpu, nic), "") for nic in self.nics}
        return next((each for each in _DISTANCES if each in found), "")

    @property
    def far(self) -> dict[str, list[str]]:
        """Return the GPUs without a near NIC, by distance."""
        found: dict[str, list[str]] = defaultdict(list)
        for gpu in self.gpus:
            if (distance := self.nearest(gpu)) and distance not in _NEAR:
                found[distance].append(gpu)
        return found


def read(given: GivenText) -> Shown:
    """Return what a matrix of nvidia-smi shows."""
    found = _topology(given)
    findings = [*_uneven(found), *_far(found)]
    if not found.gpus:
        what = "nvidia-smi topo -m: its matrix is not readable"
        findings = [unread(given.name, what, "save all that it prints, without wrapping lines")]
    elif not found.nics:
        what = "nvidia-smi topo -m: no NIC is in it, so nothing is known of GPUDirect RDMA"
        findings.append(unread(given.name, what, "run it outside of the container, drivers loaded"))
    return Shown(
        "nvidia-smi-topo",
        (given.name,),
        tuple(_sentences(found)),
        tuple(findings),
        "" if findings else "each GPU has a NIC behind the same PCIe switch",
        (),
        (found,),
    )


def _topology(given: GivenText) -> GpuTopology:
    names: list[str] = []
    links: dict[tuple[str, str], str] = {}
    legend: dict[str, str] = {}
    for raw in given.lines():
        line = _COLOUR.sub("", raw)
        words = line.split()
        if found := _NIC.match(line):
            legend[found[1]] = found[2]
        elif not names and words and _GPU.fullmatch(words[0]) and "X" not in words[1:3]:
            end = words.index("CPU") if "CPU" in words else len(words)
            names = words[: min(end, _MOST_NAMES)]
        elif names and words and words[0] in names and len(words) > len(names):
            own = words[1 : len(names) + 1]
            if all(map(_LINK.fullmatch, own)):
                links |= {(words[0], name): link for name, link in zip(names, own, strict=True)}
    listed = [name for name in names if (name, name) in links]
    gpus = tuple(name for name in listed if _GPU.fullmatch(name))
    nics = {name: legend.get(name, name) for name in names if not _GPU.fullmatch(name)}
    return GpuTopology(links, gpus, nics)


def _pairs(found: GpuTopology) -> list[tuple[str, str, str]]:
    return [(*pair, found.links.get(pair, "")) for pair in combinations(found.gpus, 2)]


def _uneven(found: GpuTopology) -> Iterator[Finding]:
    """Yield the pairs of GPUs that have fewer NVLinks than most pairs of this host."""
    pairs = _pairs(found)
    counts = Counter(link for *_, link in pairs)
    usual, number = counts.most_common(1)[0] if counts else ("", 0)
    if not usual.startswith("NV") or 2 * number <= len(pairs) or number == len(pairs):
        return
    odd = [f"{one} and {two}: {link}" for one, two, link in pairs if link != usual]
    what = f"{usual} between most GPUs, and not between all: {some(odd, 4)}"
    yield Finding("gpu.links", what, "nvidia-smi nvlink -s; dmesg -T for Xid", proven=False)


def _far(found: GpuTopology) -> Iterator[Finding]:
    for distance, gpus in found.far.items():
        yield Finding(
            "nccl.no-gdr",
            f"{some(gpus, 8)}: the nearest NIC is {distance} away, and by default NCCL uses"
            " GPUDirect RDMA up to PXB",
            "see what it did: pass its log (NCCL_DEBUG=INFO); a virtual machine hides switches",
            proven=False,
            part=gpus[0],
        )


def _sentences(found: GpuTopology) -> Iterator[str]:
    links = Counter(link for *_, link in _pairs(found))
    between = ", ".join(f"{link} ({count})" for link, count in links.most_common(6))
    pairs = f"; pairs by link: {between}" if between else ""
    if len(links) == 1:
        pairs = f"; {between.split(' ')[0]} between all"
    yield quantity(len(found.gpus), "GPU") + pairs
    if found.nics:
        near = Counter(found.nearest(gpu) or "unknown" for gpu in found.gpus)
        said = ", ".join(f"{distance} for {quantity(n, 'GPU')}" for distance, n in near.items())
        names = some(found.nics.values(), 4)
        yield f"{quantity(len(found.nics), 'NIC')} ({names}); the nearest one: {said}"
