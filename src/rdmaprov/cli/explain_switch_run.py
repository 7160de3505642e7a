"""What `rdmaprov explain switch` does; apart from its options, so that help stays fast."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli import session
from rdmaprov.cli.explain_switch import SYSTEMS
from rdmaprov.cli.options import VaultOptions
from rdmaprov.cli.passwords import provide_passwords
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.switches.judge import (
    SwitchAssessment,
    SwitchVerdict,
    commands_for,
    document,
    exit_code,
    judge_switch,
    nodes_without_port,
)
from rdmaprov.switches.model import SwitchFact
from rdmaprov.switches.problem import UNKNOWN, level
from rdmaprov.switches.read import READERS, read_switch
from rdmaprov.switches.saved import find_switches
from rdmaprov.switches.wanted import WantedSwitch, usual_settings, wanted_of
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
        for problem, ports in each.problems.items():
            if not problem.part or level(problem) != UNKNOWN:
                yield from _problem_lines(each, problem, ports)
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
            f"judged by the usual defaults: PFC on {', '.join(map(str, sorted(wanted.pfc)))}, DSCP"
            f" {wanted.roce_dscp} and {wanted.cnp_dscp}, MTU from {wanted.mtu_bytes:,} on;"
            " judge by a site: --site SITE"
        )


def _problem_lines(
    found: SwitchAssessment, problem: Finding, ports: Sequence[str]
) -> Iterator[str]:
    yield printable(f"{level(problem)}: {_who(found, ports)}: {problem.what}")
    if problem.remedy:
        others = "; so each of these ports" if len(ports) > 1 and "PORT" in problem.remedy else ""
        command = problem.remedy.replace("PORT", ports[0])
        yield printable(f"  fix, on the switch: {command}{others}")


def _unknown_lines(found: SwitchAssessment) -> Iterator[str]:
    """Yield what is not known, by ports and by the command that tells it."""
    lacking: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for each, ports in found.problems.items():
        if level(each) == UNKNOWN and each.part:
            command = (*commands_for(found.reading, SwitchFact(each.part)), "")[0]
            lacking.setdefault((tuple(ports), command), []).append(each.what)
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


def explain_switch(
    paths: Sequence[Path],
    site: Path | None,
    limit: str | None,
    as_json: bool,
    commands: str | None,
    **vault: Unpack[VaultOptions],
) -> int:
    """Judge saved answers; return the exit code.

    Raises:
        UsageError: no path is given, or one has no file.
    """
    if commands is not None:
        click.echo("\n".join(command_lines(commands)))
        return ExitCode.OK
    if not paths:
        raise UsageError(
            "no DIRECTORY or FILE given",
            f"See what to save: rdmaprov explain switch --commands {'|'.join(SYSTEMS)}",
        )
    if limit is not None and site is None:
        raise UsageError("--limit needs --site", "Pass --site SITE, or leave --limit out.")
    wanted = usual_settings() if site is None else _of_site(site, limit, vault)
    found = [judge_switch(read_switch(each), wanted) for each in find_switches(paths)]
    if as_json:
        click.echo(json.dumps(document(found, wanted), indent=2))
    else:
        click.echo("\n".join(switch_lines(found, wanted)))
    return exit_code(found)


def _of_site(site: Path, limit: str | None, vault: VaultOptions) -> WantedSwitch:
    with provide_passwords(vault) as given:
        return wanted_of(session.check_site(site, limit, given, None).fleet)
