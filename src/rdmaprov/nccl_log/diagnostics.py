"""What NCCL's diagnostics print: lines of `NCCL DIAG`, since 2.31.

With NCCL_RUN_DIAGNOSTICS=1, ranks test copies between GPUs (and, after 2.31, the network by
ib_write_bw); with NCCL_RUN_RAS_DIAGNOSTICS=1, RAS compares what ranks have. The forms are those of
NVIDIA's release notes and user guide ("Diagnostics", "RAS diagnostics") and of the sources that
carry them: src/diagnostics/{p2p,ib_write_bw}.cc and src/ras/diagnostics*.cc. They come on
standard output, not in NCCL's log. `diagnosis` says what follows from them.
"""

import re
from dataclasses import dataclass

MARK = b"NCCL DIAG "
_LINE = re.compile(
    rb"([^\s:\[\]]{1,255}):(\d{1,9}) NCCL DIAG \[(OK|INFO)\] {1,4}"
    rb"([A-Za-z][\w ]{0,39}): (.{1,1500})"
)
_EDGE = re.compile(
    r"([\w/ -]{4,48}) srcRank=(\d{1,7}) srcCudaDev=\d{1,4} srcNvmlDev=(\d{1,4})"
    r" dstRank=(\d{1,7}) dstCudaDev=\d{1,4} dstNvmlDev=(\d{1,4}) path=(\w{1,8}) handle=(\w{1,24})\b"
)
_RANKS = r"rank\(s\) \{([\d,]{1,100})(?:,\.\.\.)?\}(?: \(N=(\d{1,7})\))?"
_OWN = re.compile(
    rf"(.{{4,80}}?) on {_RANKS}(?: \(worst=(\d{{1,20}})\))? across (\d{{1,7}}) ranks\b"
)
_DIFFER = re.compile(
    rf"(.{{0,40}}?) ?mismatch across (\d{{1,7}}) ranks in comm \w{{1,40}},"
    rf" {_RANKS} differ from rank (\d{{1,7}}) \((.{{1,96}})\)"
)
_PAIR = re.compile(
    r"mode=\w{1,8} server_rank=\d{1,7} server_host=(\S{1,255}) server_device=(\S{1,64})"
    r" client_rank=\d{1,7} client_host=(\S{1,255}) client_device=(\S{1,64})"
    r"(?: memory=\S{1,16})? (.{1,80}?) in comm \w"
)
_OUTLIER = re.compile(
    r"(same|cross)-nic rank (\d{1,7}) \((\S{1,255})\): (\d{1,7}\.\d) Gbit/s,"
    r" >\d{1,3}% off median (\d{1,7}\.\d) Gbit/s"
)


@dataclass(frozen=True, slots=True)
class DiagnosticLine:
    """A result of NCCL's diagnostics."""

    host: str
    check: str  # `p2p`, `net bw`, `ECC`, `NVLink`, `GPU inventory`, ..
    is_ok: bool  # NCCL found nothing to report
    text: str


@dataclass(frozen=True, slots=True)
class FailedCopy:
    """A copy from a GPU to a peer's memory that failed."""

    kind: str  # such as `write mismatch` or `peer-memory import failed`
    source: int  # index of the GPU that copies, as nvidia-smi has it
    target: int  # of the other
    path: str  # such as NVL, PIX or SYS
    handle: str  # how the memory was shared, such as CUMEM_POSIX_FD

    @property
    def leaves_node(self) -> bool:
        """Return whether it may be between nodes of an NVLink domain."""
        return self.handle == "CUMEM_FABRIC" or self.path == "NET"


@dataclass(frozen=True, slots=True)
class RankSet:
    """Ranks of a communicator that a line names."""

    what: str
    ranks: tuple[int, ...]  # the first ones; NCCL lists at most 8
    count: int
    size: int  # ranks of the communicator
    reference: int | None = None  # the rank from which they differ; None if each speaks for itself


@dataclass(frozen=True, slots=True)
class FailedPair:
    """A run of ib_write_bw that failed: both ends, each with its HCA, and why."""

    server: tuple[str, str]
    client: tuple[str, str]
    why: str


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank whose mean of ib_write_bw is far from the median, in Gbit/s."""

    mode: str
    rank: int
    host: str
    gbit_s: float
    median_gbit_s: float


Detail = FailedCopy | RankSet | FailedPair | SlowRank


def parse_diagnostic(line: bytes) -> DiagnosticLine | None:
    """Return a result, None for other lines of the report."""
    found = _LINE.search(line)
    if found is None:
        return None
    host, _, tag, check, text = (each.decode(errors="replace") for each in found.groups())
    return DiagnosticLine(host, check.strip(), tag == "OK", text.strip())


def parse_detail(line: DiagnosticLine) -> Detail | None:
    """Return what a line that is not ok says of GPUs, ranks or ends; None if it names none."""
    if line.is_ok:
        return None
    if found := _EDGE.match(line.text):
        kind, _, source, _, target, path, handle = found.groups()
        return FailedCopy(kind, int(source), int(target), path, handle)
    if found := _PAIR.match(line.text):
        server, device, client, other, why = found.groups()
        return FailedPair((server, device), (client, other), why)
    if found := _OUTLIER.match(line.text):
        mode, rank, host, value, median = found.groups()
        return SlowRank(f"{mode}-nic", int(rank), host, float(value), float(median))
    return _parse_ranks(line)


def _parse_ranks(line: DiagnosticLine) -> RankSet | None:
    found = _find_ranks(line.text)
    return found if found and max((*found.ranks, found.reference or 0)) < found.size else None


def _find_ranks(text: str) -> RankSet | None:
    if found := _DIFFER.match(text):
        what, size, listed, count, reference, value = found.groups()
        ranks = _numbers(listed)
        said = f"{what or 'value'} differs from {value} of rank {reference}"
        return RankSet(said, ranks, int(count or len(ranks)), int(size), int(reference))
    if found := _OWN.match(text):
        what, listed, count, worst, size = found.groups()
        ranks = _numbers(listed)
        said = what + (f" (worst {worst})" if worst else "")
        return RankSet(said, ranks, int(count or len(ranks)), int(size))
    return None


def _numbers(listed: str) -> tuple[int, ...]:
    return tuple(int(each) for each in listed.split(",") if each)
