"""What perftest (ib_write_bw and its like) printed, as its table or as JSON."""

import re
from dataclasses import dataclass
from itertools import islice

from rdmaprov.bandwidth.rates import format_gb_s, format_size
from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.perftest import errors
from rdmaprov.perftest.expected import BAD_SHARE_OF_CEILING, Wire
from rdmaprov.perftest.tool.failures import cause, last_line
from rdmaprov.perftest.tool.output import Figures, read_all, read_mtu

_TITLE = re.compile(
    r'(?m)^[ \t]*(?:"?test"?: "?)?((?:RDMA_(?:Write|Read|Atomic)|Send|Atomic)[ _].{0,40}?Test)\b'
)
_DEVICE = re.compile(r'"?Device"?\s*: "?([\w.-]{1,64})')
_LINK = re.compile(r'"?Link[ _]type"?\s*: "?(IB|Ethernet)\b')
_GID = re.compile(r"remote address:[^\n]{0,200}\n GID: ([\d:]{31,63})")
_MAPPED = [0] * 10 + [255, 255]  # ::ffff:0:0/96, of IPv4
_JUDGED_BYTES = 65_536  # perftest's usual size of a bandwidth test
# What may be a slip of whoever typed it.
_OPEN = errors.UNTESTED | {errors.NO_DEVICE}
_PORT_DOWN = re.compile(r"Port number \d+ state is")
_MOST_MTU = 4096  # InfiniBand and RoCE have no larger one
_MOST_LINES = 10_000  # of all sizes, it prints some dozens
_RATE = "whether that is slow: pass ibstat of the same host too"


@dataclass(frozen=True)
class ReadTest:
    """A test between two ports."""

    file: str
    title: str  # what was tested, such as RDMA_Write BW Test
    device: str  # of the end that printed it; empty if unsaid
    link: str  # IB or Ethernet; empty if unsaid
    mtu: int  # of the path, bytes; 0 if unsaid
    peer: str  # the IPv4 address of the other end's GID; empty if it has none
    figures: tuple[Figures, ...]  # results, by size

    @property
    def ways(self) -> int:
        """Return in how many directions data went at once."""
        return 2 if "Bidirectional" in self.title else 1


def read(given: GivenText) -> Shown:
    """Return what a text of perftest shows."""
    text = "\n".join(islice((line for line in given.lines() if line), _MOST_LINES)) + "\n"
    searched = (pattern.search(text) for pattern in (_TITLE, _DEVICE, _LINK))
    title, device, link = (found[1] if found else "" for found in searched)
    title = title.replace("_", " ").replace("RDMA ", "RDMA_")
    test = ReadTest(
        given.name, title, device, link, read_mtu(text), _peer(text), tuple(read_all(text))
    )
    return judge(test, failure=cause(text), last=last_line(text))


def judge(
    test: ReadTest,
    gbps: float = 0.0,
    *,
    failure: tuple[str, str] = ("", ""),
    last: str = "",
    doubt: str = "",
) -> Shown:
    """Return what a test shows.

    Args:
        gbps: the rate of its port; 0 if unknown.
        failure: why it gave no number: the word, and the line that says it.
        doubt: why another port may have been meant.
    """
    findings = []
    word, line = failure
    if word:
        is_open = word in _OPEN and not _PORT_DOWN.search(line)
        kind = "path.unmeasured" if is_open else "rdma.failed"
        what = f"{_who(test)}: {errors.MEANINGS[word]}: '{line}'"
        findings.append(Finding(kind, what, _fix(word), proven=not is_open, part=test.device))
    elif not test.figures:
        what = f"perftest: no result in it; it ends with '{last[:120]}'"
        findings.append(unread(test.file, what, "save all that it prints, at the client too"))
    best = max(test.figures, key=lambda each: each.size, default=None)
    judged = bool(gbps and best and best.gb_s and best.size >= _JUDGED_BYTES)
    if judged and best:
        findings += _slow(test, best, gbps)
    is_open = bool(best and best.gb_s and not judged)
    is_right = bool(test.figures) and not findings and not is_open
    ended = "transfers ended without an error"
    return Shown(
        "perftest",
        (test.file,),
        (_sentence(test, best) + (f"; {ended}" if is_open else ""), *filter(None, (doubt,)))
        if best
        else (),
        tuple(findings),
        ended + (", at the rate of the port" if judged else "") if is_right else "",
        (_RATE,) if is_open else (),
        (test,),
    )


def _slow(test: ReadTest, best: Figures, gbps: float) -> list[Finding]:
    kind = "infiniband" if test.link == "IB" else "roce"
    wire = Wire(gbps, kind, test.mtu or 4096)
    ceiling = test.ways * wire.line_gb_s * wire.payload_share(best.size)
    if best.gb_s >= BAD_SHARE_OF_CEILING * ceiling:
        return []
    what = (
        f"{_who(test)}: {format_gb_s(best.gb_s)} at {format_size(best.size)}, where its port of"
        f" {gbps:g} Gb/s carries {format_gb_s(ceiling)}"
    )
    mtu = "" if test.mtu == _MOST_MTU else " and MTU"
    fix = f"compare both ends' PCIe slots (lspci -vv, LnkSta){mtu}; try -q 2"
    return [Finding("rail.slow", what, fix, part=test.device)]


def _fix(word: str) -> str:
    return {
        errors.NO_MEMORY: "raise the limit of locked memory (ulimit -l unlimited; role memlock);"
        " of a GPU: load nvidia_peermem",
        errors.NO_GPU_MEMORY: "build perftest with CUDA; load nvidia_peermem, or use DMA-BUF",
        errors.COMPLETION: "check ports, cables and switch ports of both ends, GIDs, routes, PFC",
        errors.NO_PATH: "compare GID index, MTU, VLAN and route of both ends",
        errors.NO_DEVICE: "compare with ibv_devinfo: the device's name, its port, its GIDs",
    }.get(word, "start the server first, then the client, with the same options")


def _who(test: ReadTest) -> str:
    return " to ".join(filter(None, (test.device or "perftest", test.peer)))


def _peer(text: str) -> str:
    """Return the IPv4 address within the GID of the other end: its bytes are decimal numbers."""
    found = _GID.search(text)
    numbers = [int(each) for each in found[1].split(":") if each] if found else []
    is_mapped = len(numbers) == 16 and numbers[:12] == _MAPPED and max(numbers) < 256
    return ".".join(map(str, numbers[12:])) if is_mapped else ""


def _sentence(test: ReadTest, best: Figures) -> str:
    parts = [test.title or "perftest", _who(test) if test.device else ""]
    if best.gb_s:
        rate = f"{format_gb_s(best.gb_s)} ({8 * best.gb_s:.4g} Gb/s)"
        parts.append(f"{rate} at {format_size(best.size)}")
    else:
        parts.append(f"{best.usec:g} µs at {format_size(best.size)}")
    parts += [test.link, f"MTU {test.mtu}" if test.mtu else ""]
    return "; ".join(filter(None, parts))
