"""The stage `host`: every node alone, all at once, with an all-reduce inside the node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.stage_report import StageNumber, StageReport
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation import compare
from rdmaprov.words import quantity


def run_host(site: GateSite, runner: JobRunner, limit_s: float | None) -> StageReport:
    """Return what each node can do alone; one that is slow beside its peers is a finding."""
    report = StageReport("host")
    if site.backend == "nccl" and site.per_node < 2:
        report.is_skipped, report.said = True, "each node has one GPU"
        return report
    size = jobs.group_bytes(site)
    runs = runner.run([jobs.host_job(site, node, size) for node in site.nodes], limit_s)
    rates: dict[str, float] = {}
    for node, ran in zip(site.nodes, runs, strict=True):
        report.findings += _about_node(node.name, ran)
        if (row := _best_row(ran)) is not None and ran.good:
            rates[node.name] = row.busbw_gb_s
    least = compare.least_rate(rates) if site.backend == "nccl" else 0.0
    report.numbers += [StageNumber(f"{name} alone", rate, least) for name, rate in rates.items()]
    if site.backend == "nccl":  # ranks of gloo share the CPU with whatever else runs there
        report.findings += compare.slow_nodes(rates)
        bad = {name for each in report.findings for name in each.nodes}
        report.intra_node_gb_s = min((r for n, r in rates.items() if n not in bad), default=0.0)
    report.findings = _folded(report.findings, len(site.nodes))
    report.said = _sentence(report, [node.name for node in site.nodes])
    return report


def _folded(found: Sequence[Finding], nodes: int) -> list[Finding]:
    """Return the findings, with one for the fleet where most nodes have the same known cause."""
    alike: dict[object, list[Finding]] = defaultdict(list)
    for each in found:
        alike[each.values.get("cause")].append(each)
    rest = alike.pop(None, [])
    for group in alike.values():
        names = tuple(dict.fromkeys(each.node for each in group))
        if len(names) <= max(2, nodes / 2):
            rest += group
            continue
        first = group[0]
        what = f"{len(names)} nodes fail alike, the first one: {first.what}"
        remedy = first.remedy.removeprefix(f"On {first.node}: ")
        rest.append(
            Finding(first.kind, what, remedy, level="fleet", nodes=names, values=first.values)
        )
    return rest


def _best_row(ran: JobRun) -> measure.SweepRow | None:
    return measure.largest_row(measure.rows(ran), ran.job.planes[0].name)


def _about_node(name: str, ran: JobRun) -> Iterator[Finding]:
    """Yield why a node failed alone; nobody else can be at fault."""
    for each in (*blame.findings(ran), *wrong_sums.findings(ran)):
        yield each if each.node else _of_node(each, name)


def _of_node(found: Finding, name: str) -> Finding:
    remedy = f"On {name}, read dmesg -T; on the controller, logs/{name}.err of this run"
    what = f"{found.what} (the node ran alone)"
    return Finding(found.kind, what, remedy, name, values=found.values)


def _sentence(report: StageReport, names: Sequence[str]) -> str:
    bad = dict.fromkeys(name for each in report.findings for name in each.nodes)
    said = f"{quantity(len(names), 'node')} alone: {len(names) - len(bad)} passed"
    if report.intra_node_gb_s:
        said += f", at {format_gb_s(report.intra_node_gb_s)} or more"
    for name in list(bad)[:3]:
        what = next(each.what for each in report.findings if name in each.nodes)
        said += f"; {name}: {what.splitlines()[0][:120]}"
    return said + (f"; and {len(bad) - 3} more" if len(bad) > 3 else "")
