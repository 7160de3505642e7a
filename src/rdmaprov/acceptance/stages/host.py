"""The stage `host`: every node alone, all at once, with an all-reduce inside the node.

Its other part tests RDMA: each NIC with itself, through each memory.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.at_fault import wrong_sums
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.live.alone import RanksAlone
from rdmaprov.acceptance.live.ranks import odd_networks
from rdmaprov.acceptance.paths.ceilings import HostCell, host_cells, host_rounds
from rdmaprov.acceptance.paths.perftests import open_path_tests
from rdmaprov.acceptance.paths.survey import NodeSurvey, software_settings, survey_nodes
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.stage_report import StageNumber, StageReport
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation import compare
from rdmaprov.perftest import errors
from rdmaprov.perftest.model import End, PathMeasurer, PathResult, PathTest
from rdmaprov.perftest.tool.options import Settings
from rdmaprov.runs.results import ALONE
from rdmaprov.words import quantity

# A node of eight rails, eight GPUs and two sockets has 65 rounds; a slot fills in milliseconds.
_DURATION_S = 1
_MOST_NOTES = 8
_MOST_FAILED = 2
Measured = Mapping[PathTest, PathResult]


def run_host(site: GateSite, alone: RanksAlone) -> StageReport:
    """Return what each node can do alone; one that is slow beside its peers is a finding.

    The ranks end here: their logs are part of it.
    """
    report = StageReport("host")
    if site.backend == "nccl" and site.per_node < 2:
        report.is_skipped, report.said = True, "each node has one GPU"
        return report
    size = jobs.group_bytes(site)
    runs = alone.perform(site, lambda job, number: jobs.host_task(job, number, size))
    alone.end()
    rates: dict[str, float] = {}
    for node, ran in zip(site.nodes, runs, strict=True):
        report.findings += about_node(node.name, ran)
        row = measure.largest_row(measure.rows(ran), ran.job.planes[0].name)
        if row is not None and ran.good:
            rates[node.name] = row.busbw_gb_s
    least = compare.least_rate(rates) if site.backend == "nccl" else 0.0
    report.numbers += [StageNumber(name + ALONE, rate, least) for name, rate in rates.items()]
    if site.backend == "nccl":  # ranks of gloo share the CPU with whatever else runs there
        report.findings += compare.slow_nodes(rates)
        nodes = {name: node for ran in runs for name, node in ran.nodes.items()}
        report.findings += odd_networks(nodes)
        bad = {name for each in report.findings for name in each.nodes}
        report.intra_node_gb_s = min((r for n, r in rates.items() if n not in bad), default=0.0)
    report.findings = folded(report.findings, len(site.nodes))
    report.said = _sentence(report, [node.name for node in site.nodes])
    return report


def folded(found: Sequence[Finding], nodes: int) -> list[Finding]:
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
        what = f"{len(names)} nodes have the same failure, the first one: {first.what}"
        remedy = first.remedy.removeprefix(f"On {first.node}: ")
        rest.append(
            Finding(first.kind, what, remedy, level="fleet", nodes=names, values=first.values)
        )
    return rest


def about_node(name: str, ran: JobRun) -> Iterator[Finding]:
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


def add_host_paths(
    report: StageReport,
    connection: Nodes,
    site: GateSite,
    keep: Callable[[str, str], object] = lambda *_: None,
) -> None:
    """Test the loopbacks of all nodes, and add what came of them to the stage's report."""
    surveys = survey_nodes(connection, site)
    able = {n: each for n, each in surveys.items() if each.abilities and each.ports}
    cells = {name: host_cells(name, survey) for name, survey in able.items()}
    found: dict[PathTest, PathResult] = {}
    if able:
        settings = Settings(duration_s=_DURATION_S)
        if all(each.is_software for each in able.values()):
            settings = software_settings(settings)
        with open_path_tests(connection, able, settings) as tests:
            found = measure_cells(tests, cells)
        report.is_skipped = False
        keep("loopback.tsv", _table(cells, found))
    findings, notes = judge(cells, found, surveys)
    report.findings += findings
    report.notes += notes
    report.said += "; " + _loopback_sentence(cells, found, surveys)


def measure_cells(
    measurer: PathMeasurer, cells: Mapping[str, Sequence[HostCell]]
) -> dict[PathTest, PathResult]:
    """Return the results of all loopbacks, all nodes at once.

    A rail that failed twice is left alone: each further test could last until its time limit.
    """
    found: dict[PathTest, PathResult] = {}
    failed: Counter[End] = Counter()
    for round_ in zip_longest(*map(host_rounds, cells.values()), fillvalue=()):
        wanted = [cell.test for own in round_ for cell in own]
        given_up = [test for test in wanted if failed[_rail(test)] >= _MOST_FAILED]
        said = f"{_MOST_FAILED} loopbacks of its rail failed before"
        found |= {test: PathResult(test, error=errors.NOT_RUN, said=said) for test in given_up}
        done = measurer.measure([test for test in wanted if test not in found])
        found.update(done)
        failed.update(
            _rail(test)
            for test, result in done.items()
            if result.error and result.error not in errors.UNTESTED
        )
    return found


def _rail(test: PathTest) -> End:
    return End(test.sender.node, test.sender.rail)


def judge(
    cells: Mapping[str, list[HostCell]], found: Measured, surveys: Mapping[str, NodeSurvey]
) -> tuple[list[Finding], list[str]]:
    """Return which loopbacks are slow or fail, and notes; nothing here is about the network.

    What the PCI path explains is proven. What it does not is unknown; if most nodes are alike, it
    is rather a property of the NIC, and a note.
    """
    open_ones: dict[str, list[tuple[HostCell, str]]] = {}
    findings, notes = [], list(_not_verified(cells, found))
    for name, own in cells.items():
        if surveys[name].is_software:
            continue
        for cell in own:
            if not (what := _miss(cell, found[cell.test])):
                continue
            if not cell.place.is_near:
                notes.append(f"{_where(cell)}: {what}; {cell.place.reason}; no floor applies")
            elif cell.cause:
                findings.append(_finding(cell, f"{what}; {cell.cause}", proven=True))
            else:
                open_ones.setdefault(name, []).append((cell, what))
    alike = 2 * len(open_ones) > len(cells) and len(cells) > 1
    for each in open_ones.values():
        for cell, what in each:
            text = f"{what}; its PCI path does not explain it"
            if alike:
                notes.append(f"{_where(cell)}: {text}, and most nodes are alike")
            else:
                findings.append(_finding(cell, text, proven=False))
    more = len(notes) - _MOST_NOTES
    rest = [f"and {more} more notes on loopbacks: loopback.tsv"] if more > 0 else []
    return findings, [*notes[:_MOST_NOTES], *rest]


def _miss(cell: HostCell, result: PathResult) -> str:
    """Return what is wrong with a result; empty if nothing is, or nothing was tested."""
    if result.error:
        tested = result.error not in errors.UNTESTED
        said = f" ({result.said})" if result.said else ""
        return f"a loopback fails: {errors.MEANINGS[result.error]}{said}" if tested else ""
    if cell.ceiling is None or result.gb_s >= cell.ceiling.least_gb_s:
        return ""
    return f"a loopback reaches {format_gb_s(result.gb_s)}; {cell.ceiling.sentence}"


def _where(cell: HostCell) -> str:
    end = cell.test.sender
    return f"{end.node} rail {end.rail} with {end.memory}"


def _finding(cell: HostCell, what: str, *, proven: bool) -> Finding:
    end = cell.test.sender
    remedy = (
        f"It is inside of {end.node}, not in the network. On {end.node}, check: "
        "lspci -vv (LnkSta, ACSCtl, MaxReadReq); dmesg -T; the BIOS (IOMMU, ACS)"
    )
    return Finding(
        "loopback.slow", f"{end.memory}: {what}", remedy, end.node, end.rail, proven=proven
    )


def _not_verified(cells: Mapping[str, list[HostCell]], found: Measured) -> Iterator[str]:
    """Yield a note for each reason for which loopbacks were not tested."""
    reasons = Counter(
        (result.error, cell.test.sender.memory.startswith("gpu"), result.said)
        for own in cells.values()
        for cell in own
        if (result := found[cell.test]).error in errors.UNTESTED
    )
    words: dict[tuple[str, bool], tuple[int, str]] = {}
    for (word, is_gpu, said), count in reasons.items():
        before = words.get((word, is_gpu), (0, said))
        words[word, is_gpu] = (before[0] + count, before[1])
    for (word, is_gpu), (count, said) in words.items():
        memory = "GPU" if is_gpu else "host"
        yield (
            f"{quantity(count, 'loopback')} through {memory} memory not verified: "
            f"{errors.MEANINGS[word]}{f' ({said})' if said else ''}"
        )


def _loopback_sentence(
    cells: Mapping[str, list[HostCell]], found: Measured, surveys: Mapping[str, NodeSurvey]
) -> str:
    without = [name for name in surveys if name not in cells]
    reached = [
        (result.gb_s, cell)
        for own in cells.values()
        for cell in own
        if cell.place.is_near and (result := found[cell.test]).gb_s
    ]
    said = []
    if reached:
        slowest, cell = min(reached, key=lambda each: each[0])
        said.append(f"{quantity(len(reached), 'RDMA loopback')} at {format_gb_s(slowest)} or more")
        software = any(surveys[name].is_software for name in cells)
        if software:
            said[-1] += " (Soft-RoCE: no floor applies)"
        elif cell.ceiling is None:
            said[-1] += " (its PCI links are not shown: no floor applies)"
        else:
            said[-1] += f" ({cell.ceiling.sentence})"
    elif cells:
        said.append("RDMA loopbacks not verified: none gave a number")
    if without:
        why = _why_without(surveys[without[0]])
        said.append(f"RDMA loopbacks of {quantity(len(without), 'node')} not verified: {why}")
    return "; ".join(said)


def _why_without(survey: NodeSurvey) -> str:
    if survey.why:
        return survey.why
    return errors.MEANINGS[errors.NO_PERFTEST if not survey.abilities else errors.NO_DEVICE]


def _table(cells: Mapping[str, list[HostCell]], found: Measured) -> str:
    """Return all results as lines: node, rail, memory, GB/s, what it must reach, the error."""
    lines = ["node\trail\tmemory\tgb_s\tleast_gb_s\terror\tsaid"]
    for own in cells.values():
        for cell in own:
            end, result = cell.test.sender, found[cell.test]
            floor = cell.ceiling if cell.place.is_near else None
            least = f"{floor.least_gb_s:.2f}" if floor else ""
            row = (end.node, end.rail, end.memory, f"{result.gb_s:.3f}", least, result.error)
            lines.append("\t".join(map(str, (*row, result.said))))
    return "\n".join(lines) + "\n"
