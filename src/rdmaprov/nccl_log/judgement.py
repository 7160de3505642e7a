"""Where the transports of a job differ from the expected ones."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log import remedies
from rdmaprov.nccl_log.diagnosis import Diagnosis
from rdmaprov.nccl_log.matrix import (
    Channel,
    Matrix,
    Transport,
    format_count,
    format_numbers,
    format_ranks,
)
from rdmaprov.problem import printable
from rdmaprov.words import some

# Of two hosts, either may be the usual one.
_FEW_HOSTS = 2
_RDMA = {Transport.IB, Transport.ROCE}


def judge(
    matrix: Matrix,
    expected_transport: Transport | None,
    expected_hcas: Mapping[str, Collection[str]] | None,
    gdr_required: bool,
    *,
    every_rank: bool = True,
    one_domain: bool = False,
) -> list[Finding]:
    """Return what differs from the expected, then what the logs do not prove; empty if all is well.

    The node of a finding is its host, as the log names it.

    Args:
        matrix: what `transport.read_matrix` found.
        expected_transport: IB or ROCE, which each channel between nodes must use; None: any, as
            long as it is one and is not sockets beside an HCA.
        expected_hcas: HCAs that each host must use, and no others, by the host's name in the log;
            None: any.
        gdr_required: each channel must use GPUDirect RDMA; otherwise all or none.
        every_rank: whether a rank without a line is a finding.
        one_domain: all nodes share one NVLink domain, so no channel needs to leave a node.
    """
    if one_domain and matrix.local_only:
        expected_transport, expected_hcas = Transport.P2P, None
    found = [
        *_wrong_transports(matrix, expected_transport),
        *_unused_devices(matrix, expected_transport),
        *_missing_gdr(matrix, expected_transport, gdr_required),
        *_wrong_hcas(matrix, expected_hcas or {}),
        *_mixed_versions(matrix),
        *_missing_evidence(matrix),
    ]
    if every_rank and matrix.absent:
        found.append(absent_ranks(matrix))
    return found


def absent_ranks(matrix: Matrix) -> Finding:
    """Return that ranks are missing from the logs."""
    of = f" of {matrix.size}" if matrix.size else ""
    return Finding(
        "nccl.log",
        f"{format_numbers(matrix.absent)}{of}: no line in the logs",
        "pass the logs of all ranks",
        proven=False,
        values={"ranks": len(matrix.absent)},
    )


def sentence(problem: Finding) -> str:
    """Return a finding as `--json` has it."""
    return printable(f"{problem.what}; {problem.remedy}")


def diagnosed(fault: Diagnosis) -> Finding:
    """Return what NCCL's diagnostics show as a finding."""
    where = [*fault.hosts, *([format_numbers(fault.ranks)] if fault.ranks else [])]
    what = f"{', '.join(where)}: {fault.what}" if where else fault.what
    return Finding("nccl.diagnostics", what, fault.remedy, proven=fault.proven, nodes=fault.hosts)


def _by_host(channels: list[Channel]) -> Iterator[tuple[tuple[str, str], list[Channel]]]:
    def key(channel: Channel) -> tuple[str, str]:
        return channel.rank.host, channel.transport

    for one, group in groupby(sorted(channels, key=key), key):
        yield one, list(group)


def _wrong_transports(matrix: Matrix, expected: Transport | None) -> Iterator[Finding]:
    kinds = {channel.transport for channel in matrix.channels} - {Transport.UNKNOWN}
    if expected is None:
        # The odd ones are those that are not RDMA; among RDMA, all are.
        usual = kinds & _RDMA if len(kinds & _RDMA) == 1 else set()
        odd = kinds - usual if len(kinds) > 1 else set()
        wanted = f"others {usual.copy().pop()}" if usual else "expected one transport for all"
    else:
        odd, wanted = kinds - {expected}, f"expected {expected}"
        if matrix.local_only and expected is not Transport.P2P:
            what = "no channel leaves a node (only NVLink, PCIe or shared memory)"
            remedy = "run the job on two nodes or more"
            if matrix.crosses_hosts:
                what = "hosts are connected by NVLink (MNNVL), and no rail was tested"
                remedy = "for the rails, run the job with NCCL_MNNVL_ENABLE=0"
            yield Finding("nccl.transport", f"{what}, {wanted}", remedy)
    wrong = [channel for channel in matrix.channels if channel.transport in odd]
    for (host, kind), channels in _by_host(wrong):
        yield Finding(
            "nccl.transport",
            f"{format_ranks(channels)} on {host or '?'}: {kind} on {format_count(channels)}"
            f" between nodes, {wanted} (first: {channels[0]})",
            remedies.transport(matrix, host, channels[0]),
            node=host,
            values={"transport": kind, "channels": len(channels)},
        )


def _unused_devices(matrix: Matrix, expected: Transport | None) -> Iterator[Finding]:
    """Yield hosts that use sockets beside an RDMA device, if nothing else names them."""
    if expected is not None or {channel.transport for channel in matrix.channels} & _RDMA:
        return
    hcas = {(process.host, process.pid): process.hcas for process in matrix.processes}
    wrong = [
        channel
        for channel in matrix.channels
        if channel.transport is Transport.SOCKET and hcas.get((channel.rank.host, channel.rank.pid))
    ]
    for (host, _), channels in _by_host(wrong):
        found = hcas[host, channels[0].rank.pid]
        yield Finding(
            "nccl.transport",
            f"{format_ranks(channels)} on {host or '?'}: socket although NCCL found"
            f" {', '.join(found)}"
            f" (first: {channels[0]})",
            remedies.transport(matrix, host, channels[0]),
            node=host,
        )


def _missing_gdr(matrix: Matrix, expected: Transport | None, required: bool) -> Iterator[Finding]:
    # Sockets never have it; where another transport was declared, they are named already.
    sockets = required and expected is None
    able = [c for c in matrix.channels if sockets or c.transport is not Transport.SOCKET]
    without = [channel for channel in able if not channel.gdr]
    if not without or not (required or len(without) < len(able)):
        return
    for (host, _), channels in _by_host(without):
        of = sum(channel.rank.host == host for channel in able)
        hcas = ", ".join(sorted({channel.hca for channel in channels}))
        yield Finding(
            "nccl.no-gdr",
            f"{format_ranks(channels)} on {host or '?'}: no GPUDirect RDMA on {len(channels)}"
            f" of {of} channels between nodes ({hcas}; first: {channels[0]})",
            remedies.gdr(matrix, host, channels),
            node=host,
            values={"channels": len(channels), "of_channels": of},
        )


def _wrong_hcas(matrix: Matrix, expected: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    idle: list[tuple[str, str, str]] = []
    by_host: dict[str, list[Channel]] = defaultdict(list)
    for each in matrix.channels:
        by_host[each.rank.host].append(each)
    for host, names in sorted(expected.items()):
        channels = by_host[host]
        used = {name for channel in channels for name in channel.hcas}
        missing = sorted(set(names) - used)
        if missing and (not channels or host in matrix.unfinished_hosts):
            yield Finding(
                "nccl.log",
                f"{host}: its log ends before all channels between nodes are listed, so it does not"
                f" show whether {', '.join(missing)} would be used",
                f"find why the run of {host} ended: search its log for NCCL WARN",
                proven=False,
                node=host,
            )
        else:
            idle += [(host, name, ", ".join(sorted(used)) or "none") for name in missing]
        for channel in channels:
            if set(channel.hcas) - set(names):
                yield Finding(
                    "nccl.hca",
                    f"{host}: {channel}, expected one of {', '.join(sorted(names))}",
                    "set NCCL_IB_HCA to the rails",
                    node=host,
                )
                break
    yield from _idle_hcas(idle, len(expected))


def _idle_hcas(idle: Collection[tuple[str, str, str]], hosts: int) -> Iterator[Finding]:
    """Yield the HCAs that no channel uses; one of most hosts is no fault of theirs.

    All ranks use as many channels as the one with the fewest (NCCL, src/init.cc,
    initTransportsRank), so one host without an HCA leaves one of each other host idle.
    """
    count = Counter(name for _, name, _ in idle)
    shared = {name for name, times in count.items() if 2 * times > hosts > _FEW_HOSTS}
    for name in sorted(shared):
        yield Finding(
            "nccl.channels",
            f"{name} of {count[name]} of {hosts} hosts: no channel between nodes uses it",
            "check NCCL_IB_HCA, and for a host with fewer HCAs: all others follow it",
            part=name,
            values={"hosts": count[name], "of_hosts": hosts},
        )
    for host, name, used in idle:
        if name not in shared:
            yield Finding(
                "nccl.hca",
                f"{host} {name}: no channel between nodes uses it (used: {used})",
                f"on {host}, check NCCL_IB_HCA and the state of the port (ibv_devinfo)",
                node=host,
                part=name,
            )


def _mixed_versions(matrix: Matrix) -> Iterator[Finding]:
    if len(matrix.versions) > 1:
        yield Finding(
            "nccl.version",
            f"NCCL {' and '.join(matrix.versions)} in one job",
            "use one version on all nodes, or pass the logs of one job only",
        )


def _missing_evidence(matrix: Matrix) -> Iterator[Finding]:
    nameless = [c for c in matrix.channels if c.transport is Transport.UNKNOWN]
    if nameless:
        yield Finding(
            "nccl.log",
            f"{format_ranks(nameless)}: the log does not show the transport"
            f" of {format_count(nameless)} (first: {nameless[0]})",
            remedies.unknown_transport(nameless[0].network),
            proven=False,
        )
    if not matrix.channels and not matrix.local_only:
        yield Finding(
            "nccl.log", "no channel between nodes is in the log", remedies.NO_CHANNELS, proven=False
        )
    if matrix.unfinished:
        yield Finding(
            "nccl.log",
            "the log ends, or the job stopped, before all channels were listed:"
            f" {some(matrix.unfinished, 4)}",
            "pass the whole log; if it is whole, search it for NCCL WARN",
            proven=False,
        )
    count, first = matrix.unreadable
    if count:
        yield Finding(
            "nccl.log",
            f"{count} lines about channels could not be parsed (first: {first!r})",
            "give each process its own file with NCCL_DEBUG_FILE",
            proven=False,
            values={"lines": count},
        )
    if matrix.silent:
        yield Finding(
            "nccl.log",
            f"{some(matrix.silent, 4)}: no line of NCCL",
            "check that this rank started, and set NCCL_DEBUG=INFO for it",
            proven=False,
        )
