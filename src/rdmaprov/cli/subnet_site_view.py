"""The judged subnets of a site, as lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rdmaprov.cli.subnet_view import pattern_lines, size_of
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.site_subnet.gather import Gathered
from rdmaprov.site_subnet.judge_site import SiteAssessment
from rdmaprov.subnet.problem import level, where, word
from rdmaprov.words import quantity

_MOST_SHOWN = 20  # findings of one kind; results.json has all
_WORDS = {ExitCode.OK: "healthy", ExitCode.FAILED: "wrong", ExitCode.UNKNOWN: "unknown"}


def site_lines(found: SiteAssessment, gathered: Gathered) -> Iterator[str]:
    """Yield the problems, the load of each pattern, and the verdict in the last line."""
    plan = found.plan
    yield from _finding_lines(found.findings)
    for device, assessment in gathered.subnets.items():
        if len(gathered.subnets) > 1:
            yield f"subnet of {device}: {size_of(assessment)}"
        yield from pattern_lines(assessment)
    rails = quantity(len(plan.rails), "rail")
    there = [size_of(each) for each in found.subnets] if len(found.subnets) == 1 else []
    parts = [f"{quantity(len(plan.nodes), 'node')}, {rails}", *there]
    where = f"; read from {gathered.host}" if gathered.host else "; nothing was read"
    yield f"{_WORDS[found.exit_code]}: {'; '.join(parts)}{where}"


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    kinds: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in findings:
        kinds[level(each), word(each)].append(each)
    for (state, kind), own in kinds.items():
        for each in own[:_MOST_SHOWN]:
            yield printable(f"{state}: {kind}: {_sentence(each)}")
        if len(own) > _MOST_SHOWN:
            yield f"… and {len(own) - _MOST_SHOWN:,} more of this kind; results.json has all"


def _sentence(finding: Finding) -> str:
    """Return what is wrong, after the rail of the site and the end of the link."""
    port = "" if finding.port is None else f" port {finding.port}"
    at = "" if finding.what.startswith(finding.part) else f"{finding.part}{port}: "
    place = where(finding)
    if not place or finding.part == finding.node:
        return f"{at}{finding.what}"
    return finding.what if finding.what.startswith(place) else f"{place}: {at}{finding.what}"
