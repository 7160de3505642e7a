"""A judged InfiniBand subnet, as lines."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.subnet.as_data import document, pattern_data
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.problem import level, word

# Problems of one kind that are printed one by one; our choice.
_MOST_SHOWN = 20


def lines(assessment: Assessment) -> Iterator[str]:
    """Yield the problems, the load of each pattern, and the verdict in the last line."""
    yield from problem_lines(assessment.problems, after_end, "--json")
    said = [
        f"{each.state.lower()} {assessment.owner(each) or f'{each.guid:#018x}'} (LID {each.lid},"
        f" priority {each.priority})"
        for each in sorted(assessment.managers, key=lambda each: each.state)
    ]
    if said and all(each.state != "STANDBY" for each in assessment.managers):
        unasked = "standby managers unknown (saquery SMIR)"
        said.append("no standby manager" if assessment.knows_managers else unasked)
    if said:
        yield printable(f"managers: {', '.join(said[:_MOST_SHOWN])}")
    yield from pattern_lines(assessment)
    yield f"{assessment.verdict}: {size_of(assessment)}"


def pattern_lines(assessment: Assessment) -> Iterator[str]:
    """Yield the load of each pattern that crosses the switches above the leaves."""
    crossed = {name: load for name, load in assessment.loads.items() if load.worst}
    if crossed:
        yield "pattern     busiest/mean  excess  idle links  busiest link"
    for name, load in crossed.items():
        found = pattern_data(assessment.fabric, load)
        at = found["busiest"]
        where = f"{at['name']} port {at['port']} → {at['to']} port {at['to_port']}"
        yield (
            f"{name:<12}{found['max_over_mean']:>12.1f}  {found['excess']:>6.1f}"
            f"  {found['idle_links']:>10,}  {where}, {at['flows']:,} flows"
        )


def size_of(assessment: Assessment) -> str:
    """Return how many switches, HCAs, links and credit loops there are."""
    head = document(assessment)
    loops = assessment.loops
    credit = f", {len(loops)} credit loops" if loops is not None else ""
    return f"{head['switches']:,} switches, {head['hcas']:,} HCAs, {head['links']:,} links{credit}"


def problem_lines(
    problems: Sequence[Finding], sentence: Callable[[Finding], str], rest: str
) -> Iterator[str]:
    """Yield problems kind by kind.

    Args:
        rest: what has those that are not printed, such as `--json`.
    """
    kinds: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in problems:
        kinds[level(each), word(each)].append(each)
    for (state, kind), found in kinds.items():
        for each in found[:_MOST_SHOWN]:
            yield printable(f"{state}: {kind}: {sentence(each)}")
        if len(found) > _MOST_SHOWN:
            yield f"… and {len(found) - _MOST_SHOWN:,} more of this kind; {rest} has all"


def after_end(finding: Finding) -> str:
    """Return what is wrong, after the end of the link."""
    port = "" if finding.port is None else f" port {finding.port}"
    at = "" if finding.what.startswith(finding.part) else f"{finding.part}{port}: "
    return f"{at}{finding.what}"
