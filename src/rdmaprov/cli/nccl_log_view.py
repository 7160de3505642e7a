"""A transport matrix as text: the verdict, one row per group of equal ranks, the problems."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import click

from rdmaprov.bandwidth.rates import format_size
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.assessment import LogAssessment
from rdmaprov.nccl_log.matrix import (
    Channel,
    Gdr,
    LogRank,
    Matrix,
    Transport,
    TransportVerdict,
    format_ranges,
)
from rdmaprov.nccl_log.tuning import size_ranges
from rdmaprov.problem import printable
from rdmaprov.words import quantity, some

_HEAD = ("ranks", "hosts", "transport", "HCA", "GDR", "channels", "within the node")
_MAX_ROWS = 32
_MAX_PROBLEMS = 20
_MAX_WARNINGS = 4
_TRANSPORT = {
    Transport.P2P: "p2p: all channels stay within a node",
    Transport.UNKNOWN: "unknown: the logs do not show the transport",
}
_GDR = {
    Gdr.ALL: "GPUDirect RDMA on all",
    Gdr.SOME: "GPUDirect RDMA on some of",
    Gdr.NONE: "no GPUDirect RDMA on",
    Gdr.UNKNOWN: "GPUDirect RDMA unknown on",
}


def lines(found: LogAssessment) -> Iterator[str]:
    """Yield the lines to print: why the job failed comes before the transport."""
    matrix, failed, problems = found.matrix, found.failed, found.problems
    yield from _problems(failed, "failed:  ")
    if failed:
        yield ""
    yield click.style(_verdict(matrix, found.verdict), bold=True)
    for reason in found.reasons:
        yield f"note:    {printable(reason)}"
    rows = list(_rows(matrix))
    if rows:
        yield ""
        yield from _table([_HEAD, *rows[:_MAX_ROWS]])
    if len(rows) > _MAX_ROWS:
        yield f"and {len(rows) - _MAX_ROWS} more rows; see --json"
    yield from _algorithms(matrix)
    if problems or found.notes:
        yield ""
    yield from _problems(problems, "problem: ")
    for note in found.notes:
        yield f"note:    {printable(note)}"
    yield from _warnings(matrix)


def _problems(problems: list[Finding], mark: str) -> Iterator[str]:
    for problem in problems[:_MAX_PROBLEMS]:
        mine = click.style(mark, fg="red")
        if not problem.proven:
            mine = click.style("unknown: ", fg="yellow")
        yield f"{mine}{printable(problem.what)}"
        yield f"         {printable(problem.remedy)}"
    if len(problems) > _MAX_PROBLEMS:
        yield f"and {len(problems) - _MAX_PROBLEMS} more problems; see --json"


def _warnings(matrix: Matrix) -> Iterator[str]:
    """Yield the last WARNs of each host, each once for all hosts that have it."""
    last: dict[str, list[str]] = {}
    count: Counter[str] = Counter()
    for host, words in reversed(matrix.broken.warnings):
        count[host] += 1
        if count[host] <= _MAX_WARNINGS:
            last.setdefault(words, []).append(host or "?")
    if last:
        yield ""
    for words, hosts in list(last.items())[: 2 * _MAX_WARNINGS][::-1]:
        yield printable(f"{some(sorted(hosts), 4)} warned: {words[:200]}")


def _algorithms(matrix: Matrix) -> Iterator[str]:
    """Yield which algorithms were taken, by size."""
    taken = list(size_ranges(matrix.choices))
    if taken:
        yield ""
    for one in taken[:_MAX_ROWS]:
        sizes = format_size(one.low) + (
            f" to {format_size(one.high)}" if one.high > one.low else ""
        )
        ranks = f" of {one.ranks} ranks" if one.ranks else ""
        yield printable(f"{one.function or 'collectives'}{ranks}, {sizes}: {one.taken}")
    if len(taken) > _MAX_ROWS:
        yield f"and {len(taken) - _MAX_ROWS} more ranges of sizes; see --json"


def _verdict(matrix: Matrix, verdict: TransportVerdict) -> str:
    parts = [_TRANSPORT.get(verdict.transport, str(verdict.transport))]
    if verdict.transport is Transport.P2P and matrix.crosses_hosts:
        parts = ["p2p: NVLink between hosts (MNNVL); no rail was tested"]
    if matrix.channels:
        count = quantity(len(matrix.channels), "channel")
        text = f"{_GDR[verdict.gdr]} {count} between nodes"
        parts.append(text.replace("on all 1 channel", "on the only channel"))
    if verdict.hcas:
        parts.append(f"HCA{'s' if len(verdict.hcas) > 1 else ''} {', '.join(verdict.hcas)}")
    if verdict.sharp:
        parts.append("SHARP")
    if verdict.nccl_version:
        parts.append(f"NCCL {verdict.nccl_version}")
    return printable("; ".join(parts))


def _rows(matrix: Matrix) -> Iterator[tuple[str, ...]]:
    """Yield one row for each group of equal ranks."""
    channels: defaultdict[LogRank, list[Channel]] = defaultdict(list)
    for channel in matrix.channels:
        channels[channel.rank].append(channel)
    alike: defaultdict[tuple[str, ...], list[LogRank]] = defaultdict(list)
    for member in matrix.members:
        alike[*_of_rank(channels[member.rank]), ", ".join(member.local) or "-"].append(member.rank)
    for row, ranks in alike.items():
        hosts = sorted({rank.host or "?" for rank in ranks})
        names = some(hosts, 1)
        yield format_ranges({rank.number for rank in ranks}), names, *row


def _of_rank(channels: list[Channel]) -> tuple[str, ...]:
    if not channels:
        return "-", "-", "-", "0"
    kinds = sorted({str(channel.transport) for channel in channels})
    hcas = sorted({channel.hca for channel in channels})
    with_gdr = sum(channel.gdr for channel in channels)
    gdr = {0: "no", len(channels): "yes"}.get(with_gdr, f"{with_gdr} of {len(channels)}")
    return "+".join(kinds), ", ".join(hcas), gdr, str(len(channels))


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    rows = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
