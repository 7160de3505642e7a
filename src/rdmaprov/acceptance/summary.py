"""The result of an acceptance as lines for a person."""

from collections.abc import Iterator

from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.result import CONNECTED, GateResult
from rdmaprov.bandwidth.rates import format_gb_s, format_size
from rdmaprov.problem import printable
from rdmaprov.runs.groups import merge_lost
from rdmaprov.terminal import Line
from rdmaprov.words import some

_STATE_STYLES = {"failed": "red", "unknown": "yellow", "skipped": "dim"}
_STYLES = {"accepted": "bold green", CONNECTED: "bold", "refused": "bold red"}


def summary_lines(result: GateResult) -> Iterator[Line]:
    """Yield numbers, notes, findings, and the verdict last."""
    for report in result.stages:
        yield Line(
            printable(f"{report.state:>8}  {report.text}"), _STATE_STYLES.get(report.state, "")
        )
    for each in (result, result.over_rails):
        if each is not None and each.ran is not None:
            yield from _numbers(each)
        if each is not None and each.judgement is not None:
            yield Line(each.judgement.sentence)
    for note in result.notes:
        yield Line(printable(f"note: {note}"))
    for finding in merge_lost(result.findings):
        yield Line(finding.text, "red" if finding.proven else "yellow")
    count = len(result.nodes)
    verdict = "neither accepted nor refused: " if result.verdict == "unknown" else ""
    what = f"{count} nodes {verdict}{result.verdict}"
    if result.verdict == CONNECTED:
        what = f"{count} nodes: connectivity and sums over gloo passed"
    for lost in merge_lost([finding for finding in result.findings if finding.unreachable]):
        what += f"; unreachable: {some(lost.nodes, 4)} ({printable(lost.what)})"
    yield Line(what, _STYLES.get(result.verdict, "bold yellow"))


def _numbers(result: GateResult) -> Iterator[Line]:
    """Yield a table of sizes with a column for each plane; every fourth size, and the last."""
    assert result.ran is not None  # noqa: S101 - asked where there was a run
    rows = {(row.plane, row.bytes): row for row in measure.rows(result.ran) if row.in_place}
    names = [plane.name for plane in result.ran.job.planes]
    all_sizes = sorted({size for _, size in rows})
    if not all_sizes:
        return
    head = "".join(f"{name + ' median':>20}{'busbw':>16}" for name in names)
    yield Line(f"{'size':>8}{head}", "dim")
    for size in sorted({*all_sizes[::4], all_sizes[-1]}):
        cells = ""
        for name in names:
            row = rows.get((name, size))
            time = f"{row.median_us:.0f} µs" if row else "-"
            rate = format_gb_s(row.busbw_gb_s) if row else "-"
            cells += f"{time:>20}{rate:>16}"
        yield Line(f"{format_size(size):>8}{cells}")
