"""The stages `pairs` and `groups`: parts of the fleet side by side, compared with each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rdmaprov.acceptance.live import isolate
from rdmaprov.acceptance.live.ranks import Group, LiveRanks
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.stage_report import StageNumber, StageReport
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation import model
from rdmaprov.isolation.compare import BAD_SHARE, GLOO_BAD_SHARE, least_good, reference
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.words import quantity

# Each round has all nodes in it. Two meet every node twice; more are for a fault that is known.
ROUNDS, MORE_ROUNDS = 2, 8
# Two groups can be compared. Larger ones hide a slow rail behind their latency.
_LEAST_NODES, _MOST_NODES = 4, 16
_KINDS = ("neighbours", "across leaves")


def run_pairs(live: LiveRanks, site: GateSite, every: bool) -> StageReport:
    """Return what pairs of nodes show; `every` tests all of them."""
    report = StageReport("pairs")
    count, before = len(site.nodes), len(live.findings)
    rounds = live.rounds
    live.rates.clear()
    if count < 2:
        report.is_skipped, report.said = True, "there is one node"
        return report
    parts = isolate.compare_pairs(live, site, count if every else ROUNDS)
    _take(report, live, before, parts)
    report.said = (
        f"{quantity(live.rounds - rounds, 'round')} of {quantity(count // 2, 'pair')} side by side"
    )
    report.said += _found(report)
    return report


def run_groups(live: LiveRanks, site: GateSite) -> StageReport:
    """Return what groups of equal size show, each of neighbours, then each across leaves."""
    report = StageReport("groups")
    kinds, before = equal_groups(site), len(live.findings)
    if not kinds:
        report.is_skipped, report.said = True, f"fewer than {_LEAST_NODES} nodes"
        return report
    live.rates.clear()
    parts = _compare_kinds(live, site)
    _take(report, live, before, parts)
    size = len(next(iter(kinds.values()))[0])
    report.said = f"groups of {quantity(size, 'node')}: {', '.join(kinds)}{_found(report)}"
    return report


def run_isolation(live: LiveRanks, site: GateSite) -> list[Finding]:
    """Return what is at fault after a run that showed it was bad, and not what."""
    parts = isolate.compare_pairs(live, site, MORE_ROUNDS)
    if not parts and not live.findings:
        parts = _compare_kinds(live, site)
    return [*live.findings, *model.findings(parts)]


def _compare_kinds(live: LiveRanks, site: GateSite) -> list[FaultyPart]:
    """Return the groups that are at fault, on each plane."""
    parts: list[FaultyPart] = []
    for plane in live.planes():

        def measure(groups: Sequence[Group], plane: str = plane) -> Mapping[Group, float]:
            return live.measure(groups, plane)

        for kind, groups in equal_groups(site).items():
            parts += compare_groups(measure, groups, kind, site)
    return parts


def _take(report: StageReport, live: LiveRanks, before: int, parts: Sequence[FaultyPart]) -> None:
    """Add what was found since a number of findings, and the numbers that it follows from."""
    report.findings += live.findings[before:]
    report.findings += model.findings(parts)
    for plane, rates in live.rates.items():
        if rates:
            report.numbers.append(StageNumber(f"slowest of {report.name}, {plane}", min(rates)))
            report.numbers.append(StageNumber(f"usual of {report.name}, {plane}", reference(rates)))


def _found(report: StageReport) -> str:
    named = dict.fromkeys(each.text[:120] for each in report.findings)
    return "".join(f"; {text}" for text in list(named)[:3]) or ", all alike"


def equal_groups(site: GateSite) -> dict[str, list[Group]]:
    """Return groups of equal size by kind, of neighbours and across leaves; none for a few nodes.

    Neighbours are of one leaf where the site states leaves; else the two halves of the nodes stand
    for leaves. Up to eleven nodes have groups of two. Joined leaves are compared across alone.
    """
    names = [node.name for node in site.nodes]
    leaves: dict[str, list[str]] = {}
    for node in site.nodes:
        leaves.setdefault(node.leaf, []).append(node.name)
    if len(leaves) < 2:
        middle = (len(names) + 1) // 2
        leaves = {"first half": names[:middle], "second half": names[middle:]}
    size = max(2, min(_MOST_NODES, len(names) // 4, *(len(own) for own in leaves.values())))
    if len(names) < _LEAST_NODES:
        return {}
    near = [group for own in leaves.values() for group in chunks(own, size)]
    mixed = list(_interleave(list(leaves.values())))
    kinds = {_KINDS[0]: near, _KINDS[1]: list(chunks(mixed, size))}
    if site.is_joined:
        del kinds[_KINDS[0]]
    return {kind: groups for kind, groups in kinds.items() if len(groups) > 1}


def chunks(nodes: Sequence[str], size: int) -> Iterator[Group]:
    """Yield groups of a size, in order; a rest is left out."""
    for start in range(0, len(nodes) - size + 1, size):
        yield tuple(nodes[start : start + size])


def _interleave(leaves: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield one node of each leaf after the other."""
    for place in range(max(len(nodes) for nodes in leaves)):
        yield from (nodes[place] for nodes in leaves if place < len(nodes))


Measure = Callable[[Sequence[Group]], Mapping[Group, float]]


def compare_groups(
    measure: Measure, groups: Sequence[Group], kind: str, site: GateSite
) -> list[FaultyPart]:
    """Return the groups that are slow beside the others, in two of three tests.

    Args:
        measure: returns what groups reach side by side, GB/s.
        kind: of the groups, as a word for a person.
    """
    if len(groups) < 2:
        return []
    share = BAD_SHARE if site.backend == "nccl" else GLOO_BAD_SHARE
    tests = [measure(groups)]
    if _slow(tests[0], share):
        tests += [measure(groups), measure(groups)]
    bad = [g for g in groups if sum(g in _slow(test, share) for test in tests) >= 2]
    if not bad or 2 * len(bad) > len(groups):
        return []
    usual = reference(list(tests[0].values()))
    leaf_of = {node.name: node.leaf for node in site.nodes}
    return [_part(group, tests, kind, usual, leaf_of) for group in bad]


def _slow(rates: Mapping[Group, float], share: float) -> set[Group]:
    least = least_good(list(rates.values()), share)
    return {group for group, rate in rates.items() if rate < least}


def _part(
    group: Group,
    tests: Sequence[Mapping[Group, float]],
    kind: str,
    usual: float,
    leaf_of: Mapping[str, str],
) -> FaultyPart:
    best = max(test.get(group, 0.0) for test in tests)
    why = (
        f"together they reach {format_gb_s(best)}, other groups of {kind} {format_gb_s(usual)}, "
        "and in pairs they pass"
    )
    leaves = {leaf_of[name] for name in group}
    is_leaf = len(leaves) == 1 and leaves != {""}
    name = leaves.pop() if is_leaf else ""
    return FaultyPart("leaf" if is_leaf else "fleet", group, False, why, name, hang=best == 0)
