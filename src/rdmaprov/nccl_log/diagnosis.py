"""What follows from NCCL's diagnostics: which GPU, rank or end of a path is at fault.

NCCL's own report is informational: it ends no job. Copies that lose data, uncorrected memory errors
and links that are down are faults, proven by the rank that has them. What its test of the network
shows is unknown until it is tested again: ib_write_bw also fails where names cannot be resolved or
a firewall drops TCP, and of two slow ranks one may only be the partner of the other. What merely
differs between ranks is a note: sites set some of it on purpose.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rdmaprov.nccl_log.diagnostics import (
    DiagnosticLine,
    FailedCopy,
    FailedPair,
    RankSet,
    SlowRank,
    parse_detail,
)

# Whose line names the side that failed; the other kinds name a pair.
_SOURCE_FAILED, _TARGET_FAILED = "local CUDA setup failed", "destination buffer unavailable"
# A partner of a slow rank has the mean of a slow and a good measurement: half of the way to the
# median. Below 40 % of the way, a rank is slow itself. The tenth is our choice, for noise.
_OWN_SHARE = 0.4
_FAULTY_CHECKS = {
    "ECC": "drain it, and read nvidia-smi -q -d ECC,ROW_REMAPPER: reset or replace the GPU",
    "NVLink": "read nvidia-smi nvlink --status and dmesg -T (Xid 74, SXid): replace what is down",
}
_NET_REMEDY = (
    "test the path again: ib_write_bw between both ends; it needs names that resolve, and TCP"
)
_MOST_NOTES = 8


@dataclass(frozen=True)
class Diagnosis:
    """A fault that NCCL's diagnostics show."""

    what: str
    remedy: str
    proven: bool = True  # whether what is named is certainly wrong
    hosts: tuple[str, ...] = ()  # that it concerns, as NCCL names them; empty if ranks say it
    ranks: tuple[int, ...] = ()  # that it concerns, in a communicator of `size` ranks
    size: int = 0  # of that communicator; 0 without ranks
    hca: str = ""  # of the host, if it is about one


@dataclass
class _Sorted:
    copies: defaultdict[str, list[FailedCopy]] = field(default_factory=lambda: defaultdict(list))
    pairs: dict[FailedPair, None] = field(default_factory=dict)
    slow: defaultdict[str, list[SlowRank]] = field(default_factory=lambda: defaultdict(list))
    sets: list[tuple[str, RankSet]] = field(default_factory=list)
    rest: list[DiagnosticLine] = field(default_factory=list)


def conclude(lines: Iterable[DiagnosticLine]) -> tuple[list[Diagnosis], list[str]]:
    """Return the faults that the lines show, and as notes what else NCCL did not call ok."""
    found = _sort(lines)
    faults = [
        *(_copies(host, failed) for host, failed in found.copies.items()),
        *_rank_sets(found.sets),
        *_pairs(list(found.pairs)),
        *(each for slow in found.slow.values() for each in _slow_ranks(slow)),
    ]
    rest = [f"NCCL's diagnostics, {line.check}: {line.text}" for line in found.rest]
    more = [f"and {len(rest) - _MOST_NOTES} more lines of them"] if len(rest) > _MOST_NOTES else []
    return faults, rest[:_MOST_NOTES] + more


def _sort(lines: Iterable[DiagnosticLine]) -> _Sorted:
    found = _Sorted()
    for line in lines:
        if line.is_ok:
            continue
        match parse_detail(line):
            case FailedCopy() as detail:
                found.copies["" if detail.leaves_node else line.host].append(detail)
            case FailedPair() as detail:
                found.pairs[detail] = None
            case SlowRank() as detail:
                found.slow[detail.mode].append(detail)
            case RankSet() as detail if line.check in _FAULTY_CHECKS:
                found.sets.append((line.check, detail))
            case _:
                found.rest.append(line)
    return found


def _copies(host: str, failed: Sequence[FailedCopy]) -> Diagnosis:
    """Return what the failed copies of a host's GPUs have in common: one GPU, or pairs."""
    first = failed[0]
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    what = (
        f"NCCL's diagnostics: {first.kind} from GPU {first.source} to GPU {first.target}"
        f" (path {first.path}, {first.handle}){more}"
    )
    if not host:
        what += ", within its NVLink domain; the lines do not say on which nodes"
    elif (gpu := _common_gpu(failed)) is not None:
        what += f"; GPU {gpu} is in all of them" if more else f"; GPU {gpu} is at fault"
    return Diagnosis(what, _copy_remedy(host, failed), hosts=(host,) if host else ())


def _common_gpu(failed: Sequence[FailedCopy]) -> int | None:
    """Return the GPU that all failures share, None if there is none, or one pair alone."""
    blamed = {
        each.source if each.kind == _SOURCE_FAILED else each.target
        for each in failed
        if each.kind in (_SOURCE_FAILED, _TARGET_FAILED)
    }
    if len(blamed) == 1 and all(blamed & {each.source, each.target} for each in failed):
        return blamed.pop()
    shared = set.intersection(*({each.source, each.target} for each in failed))
    return shared.pop() if len(shared) == 1 else None


def _copy_remedy(host: str, failed: Sequence[FailedCopy]) -> str:
    on = f"on {host}, " if host else ""
    if not host:
        return "check the IMEX domain: nvidia-imex-ctl -N; nvidia-smi -q shows each GPU's fabric"
    if all("mismatch" not in each.kind and each.handle != "DIRECT" for each in failed):
        return f"{on}let the ranks share memory: containers need --ipc=host and all GPUs"
    if failed[0].path in ("NVL", "NVB"):
        return f"{on}run: nvidia-smi topo -p2p n; nvidia-smi nvlink --status"
    return f"{on}run: nvidia-smi topo -p2p p; check ACS and the IOMMU"


def _rank_sets(sets: Iterable[tuple[str, RankSet]]) -> Iterator[Diagnosis]:
    for check, each in sets:
        what = f"NCCL's diagnostics, {check}: {each.what}"
        if each.count > len(each.ranks):
            what += f"; {each.count} ranks in all"
        ranks = _odd_ranks(each)
        yield Diagnosis(what, _FAULTY_CHECKS[check], ranks=ranks, size=each.size if ranks else 0)


def _odd_ranks(found: RankSet) -> tuple[int, ...]:
    """Return the ranks that are at fault: of those that differ, the fewer; none of two halves."""
    if found.reference is None or 2 * found.count < found.size:
        return found.ranks
    # All others differ from it; of two ranks, either may be the odd one.
    alone = found.count == found.size - 1 and found.size > 2
    return (found.reference,) if alone else ()


def _pairs(pairs: Sequence[FailedPair]) -> Iterator[Diagnosis]:
    """Yield the end that failed with several others, else both ends of each pair."""
    partners: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for each in pairs:
        partners[each.server].add(each.client)
        partners[each.client].add(each.server)
    bad = {end for end, others in partners.items() if len(others) > 1}
    for host, hca in sorted(bad):
        others = ", ".join(sorted(other for other, _ in partners[host, hca]))
        what = f"NCCL's diagnostics: ib_write_bw of {hca} failed with {others}"
        yield Diagnosis(what, _NET_REMEDY, proven=False, hosts=(host,), hca=hca)
    for each in pairs:
        if not bad & {each.server, each.client}:
            (one, hca), (other, device) = each.client, each.server
            what = f"NCCL's diagnostics: ib_write_bw from {hca} to {device}: {each.why}"
            yield Diagnosis(what, _NET_REMEDY, proven=False, hosts=(one, other))


def _slow_ranks(found: Sequence[SlowRank]) -> Iterator[Diagnosis]:
    """Yield the slow ranks that are no mere partners of slower ones; faster ones are none."""
    slow = [each for each in found if each.gbit_s < each.median_gbit_s]
    if not slow:
        return
    least, median = min(each.gbit_s for each in slow), slow[0].median_gbit_s
    for each in slow:
        if each.gbit_s <= least + _OWN_SHARE * (median - least):
            what = (
                f"NCCL's diagnostics: ib_write_bw of rank {each.rank} reaches {each.gbit_s:g}"
                f" Gbit/s ({each.mode}), the median is {median:g} Gbit/s"
            )
            yield Diagnosis(what, _NET_REMEDY, proven=False, hosts=(each.host,))
