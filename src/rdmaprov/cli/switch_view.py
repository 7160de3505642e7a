"""Judged switches, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.problem import printable
from rdmaprov.switches.judge import (
    PortsProblem,
    SwitchAssessment,
    SwitchVerdict,
    commands_for,
    nodes_without_port,
)
from rdmaprov.switches.model import SwitchFact
from rdmaprov.switches.problem import SwitchLevel
from rdmaprov.switches.read import READERS
from rdmaprov.switches.wanted import WantedSwitch
from rdmaprov.words import quantity, some

_NAMES = {
    SwitchFact.BUFFERS: "buffers",
    SwitchFact.WEIGHTS: "shares of queues",
    SwitchFact.WATCHDOG: "PFC watchdog",
    SwitchFact.DROPS: "drops",
}


def switch_lines(found: Sequence[SwitchAssessment], wanted: WantedSwitch) -> Iterator[str]:
    """Yield what is wrong and what is not known of each switch, and its verdict; then of all."""
    for each in found:
        for problem in each.problems:
            if problem.problem.fact is None or problem.problem.level is not SwitchLevel.UNKNOWN:
                yield from _problem_lines(each, problem)
        yield from _unknown_lines(each)
        yield printable(_verdict(each))
    if len(found) > 1:
        counts = [
            f"{number} {verdict}"
            for verdict in SwitchVerdict
            if (number := sum(each.verdict is verdict for each in found))
        ]
        of = f"{len(found)} switches"
        yield f"{of}: {', '.join(counts)}"
    if missing := nodes_without_port(found, wanted):
        yield printable(f"note: no port names {some(missing, 3)}")
    if not wanted.is_site:
        yield (
            f"judged by what is usual: PFC on {_list(sorted(wanted.pfc))}, DSCP"
            f" {wanted.roce_dscp} and {wanted.cnp_dscp}, MTU from {wanted.mtu_bytes:,} on;"
            " judge by a site: --site SITE"
        )


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _problem_lines(found: SwitchAssessment, each: PortsProblem) -> Iterator[str]:
    problem, ports = each.problem, each.ports
    yield printable(f"{problem.level}: {_who(found, ports)}: {problem.sentence}")
    if problem.remedy:
        others = "; so each of these ports" if len(ports) > 1 and "PORT" in problem.remedy else ""
        command = problem.remedy.replace("PORT", ports[0])
        yield printable(f"  fix, on the switch: {command}{others}")


def _unknown_lines(found: SwitchAssessment) -> Iterator[str]:
    """Yield what is not known, by ports and by the command that tells it."""
    lacking: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for each in found.problems:
        if each.problem.level is SwitchLevel.UNKNOWN and each.problem.fact is not None:
            command = (*commands_for(found.reading, each.problem.fact), "")[0]
            lacking.setdefault((each.ports, command), []).append(each.problem.seen)
    for (ports, command), what in lacking.items():
        save = f"; save what this prints: {command}" if command else ""
        yield printable(f"unknown: {_who(found, ports)}: not verified: {'; '.join(what)}{save}")


def _who(found: SwitchAssessment, ports: Sequence[str]) -> str:
    return found.reading.name + (f" {some(ports, 3)}" if ports else "")


def _verdict(found: SwitchAssessment) -> str:
    reading = found.reading
    system = f" ({reading.system})" if reading.system is not None else ""
    judged = f"{quantity(len(found.ports), 'port')}, {found.chosen}" if found.ports else "no port"
    rest = len(reading.ports) - len(found.ports)
    left = f", {quantity(rest, 'other')} left out" if rest else ""
    lacking = ", ".join(_NAMES[fact] for fact in found.not_read)
    not_read = f"; not read: {lacking}" if lacking else ""
    return f"{found.verdict}: {reading.name}{system}: {judged}{left}{not_read}"


def command_lines(keyword: str) -> Iterator[str]:
    """Yield the commands to ask a switch, and what each tells."""
    reader = next(each for each in READERS if each.system.keyword == keyword)
    width = max(len(ask.command) for ask in reader.asks)
    for ask in reader.asks:
        yield f"{ask.command:<{width}}  # {ask.tells}"
