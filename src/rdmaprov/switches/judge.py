"""Judge switches: which ports are rails' ports, and what is wrong with them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.switches.check_port import PortCheck, remedy
from rdmaprov.switches.model import SwitchFact, SwitchPort, SwitchReading
from rdmaprov.switches.problem import LEVELS, UNKNOWN, WRONG, level, of_port
from rdmaprov.switches.read import READERS
from rdmaprov.switches.wanted import WantedSwitch
from rdmaprov.words import quantity

_WORD = re.compile(r"[\w-]+")
# What a port may lack without a verdict being unknown: no site says what it should be.
_OPTIONAL = {
    SwitchFact.BUFFERS: "lossless_groups",
    SwitchFact.WEIGHTS: "shares",
    SwitchFact.WATCHDOG: "watchdog",
    SwitchFact.DROPS: "drops",
}


def port_notes(reading: SwitchReading, port: SwitchPort, wanted: WantedSwitch) -> Iterator[Finding]:
    """Yield the notes on a port."""
    yield from _watchdog(reading, port)
    yield from _drops(reading, port, wanted)
    queue = port.queue_for(wanted.cnp_dscp)
    share = (port.shares or {}).get(-1 if queue is None else queue)
    if share is not None and not share.is_strict:
        seen = f"queue {queue} of CNPs is not served first"
        yield _note(reading, SwitchFact.WEIGHTS, seen)


def _note(reading: SwitchReading, fact: SwitchFact, seen: str, command: str = "") -> Finding:
    return of_port(fact, seen, command, read=reading.where.get(fact, ""))


def _watchdog(reading: SwitchReading, port: SwitchPort) -> Iterator[Finding]:
    """Without it, one NIC that never stops pausing stops the fabric.

    RDMA over Commodity Ethernet at Scale (SIGCOMM 2016), section 4.3.
    """
    watchdog = port.watchdog
    if watchdog is None:
        return
    if watchdog.is_on is False and port.pfc_rx:
        command = remedy(reading.system, SwitchFact.WATCHDOG, port)
        yield _note(reading, SwitchFact.WATCHDOG, "the PFC watchdog is off", command)
    if watchdog.storms:
        seen = f"the PFC watchdog counted {quantity(watchdog.storms, 'storm')} of pause"
        yield _note(reading, SwitchFact.WATCHDOG, seen)
    for queue in watchdog.stormed:
        seen = f"the PFC watchdog holds queue {queue}: its storm of pause had not ended"
        yield _note(reading, SwitchFact.WATCHDOG, seen)


def _drops(reading: SwitchReading, port: SwitchPort, wanted: WantedSwitch) -> Iterator[Finding]:
    of_roce = {f"queue {port.queue_for(wanted.roce_dscp)}", "rx RoCE", "tx RoCE", "tx CNP"}
    for name, count in (port.drops or {}).items():
        if count and name in of_roce:
            seen = f"{quantity(count, 'packet')} of {name} dropped since the counters were cleared"
            yield _note(reading, SwitchFact.DROPS, seen)


class SwitchVerdict(StrEnum):
    """What a switch is; unknown if nothing is wrong and something was not read."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SwitchAssessment:
    """A judged switch."""

    reading: SwitchReading
    ports: tuple[SwitchPort, ...]
    chosen: str
    # what is wrong, then what is not known, then notes; each with the ports that have it, none for
    # what was not read
    problems: Mapping[Finding, Sequence[str]]
    not_read: tuple[SwitchFact, ...]  # facts that no verdict needs and no answer has

    @property
    def verdict(self) -> SwitchVerdict:
        """Return the verdict: a fault counts more than what is not known."""
        levels = set(map(level, self.problems))
        if WRONG in levels:
            return SwitchVerdict.WRONG
        is_known = self.ports and UNKNOWN not in levels
        return SwitchVerdict.RIGHT if is_known else SwitchVerdict.UNKNOWN


def exit_code(found: Sequence[SwitchAssessment]) -> ExitCode:
    """Return the exit code for switches."""
    verdicts = {each.verdict for each in found}
    if SwitchVerdict.WRONG in verdicts:
        return ExitCode.FAILED
    return ExitCode.OK if verdicts == {SwitchVerdict.RIGHT} else ExitCode.UNKNOWN


def judge_switch(reading: SwitchReading, wanted: WantedSwitch) -> SwitchAssessment:
    """Return what is wrong with a switch, and what is not known of it."""
    ports, chosen = choose_ports(reading.ports, wanted)
    found: dict[Finding, list[str]] = {}
    for port in ports:
        check = PortCheck(reading, port, wanted)
        for each in (*check.problems(), *port_notes(reading, port, wanted)):
            found.setdefault(each, []).append(port.name)
    for text in reading.not_read:
        found[of_port(None, f"not read: {text}")] = []
    order = sorted(found, key=lambda each: LEVELS.index(level(each)))
    problems = {each: found[each] for each in order}
    lacking = tuple(
        fact
        for fact, name in _OPTIONAL.items()
        if ports and all(getattr(port, name) is None for port in ports)
    )
    return SwitchAssessment(reading, ports, chosen, problems, lacking)


def choose_ports(
    ports: Sequence[SwitchPort], wanted: WantedSwitch
) -> tuple[tuple[SwitchPort, ...], str]:
    """Return the ports of the rails, and why these.

    Those whose neighbour or description is a node of the site, and all with the rate of a rail that
    are not down, as the links between switches need the same; else all that are not down.
    """
    up = [port for port in ports if port.is_up is not False]
    fast = {port.name for port in up if wanted.link_gbps and port.speed_gbps == wanted.link_gbps}
    named = {port.name for port in ports if _named(port, wanted.nodes)}
    if not named and not fast:
        return tuple(up), "those that are not down"
    chosen = tuple(port for port in ports if port.name in named | fast)
    rate = f"those of {wanted.link_gbps} Gb/s that are not down"
    name = "those that name a node"
    return chosen, f"{name}, and {rate}" if named and fast else name if named else rate


def _named(port: SwitchPort, nodes: frozenset[str]) -> set[str]:
    """Return the nodes that a port names, as its neighbour or in its description."""
    said = f"{port.neighbour} {port.description}".lower()
    return {word for word in _WORD.findall(said) if word in nodes}


def nodes_without_port(found: Sequence[SwitchAssessment], wanted: WantedSwitch) -> list[str]:
    """Return the nodes that no judged port names, if others are named."""
    named = {node for each in found for port in each.ports for node in _named(port, wanted.nodes)}
    return sorted(wanted.nodes - named) if named else []


def commands_for(reading: SwitchReading, fact: SwitchFact) -> list[str]:
    """Return the commands whose answers have a fact."""
    reader = next((each for each in READERS if each.system is reading.system), None)
    asks = reader.asks if reader is not None else ()
    return [ask.command for ask in asks if fact in ask.facts]


def document(found: Sequence[SwitchAssessment], wanted: WantedSwitch) -> dict[str, Any]:
    """Return the object of --json."""
    return {
        "exit_code": int(exit_code(found)),
        "wanted": {key: _plain(value) for key, value in asdict(wanted).items()},
        "nodes_without_port": nodes_without_port(found, wanted),
        "switches": [_switch(each) for each in found],
    }


def _switch(found: SwitchAssessment) -> dict[str, Any]:
    reading = found.reading
    judged = {port.name for port in found.ports}
    return {
        "name": printable(reading.name),
        "system": reading.system,
        "verdict": found.verdict,
        "ports": {port.name: _port(port) for port in found.ports},
        "chosen": found.chosen,
        "left_out": [port.name for port in reading.ports if port.name not in judged],
        "read_from": {fact.value: printable(text) for fact, text in reading.where.items()},
        "not_read": [fact.value for fact in found.not_read],
        "problems": [_problem(*each) for each in found.problems.items()],
    }


def _port(port: SwitchPort) -> dict[str, Any]:
    return {
        each.name: _plain(getattr(port, each.name)) for each in fields(port) if each.name != "name"
    }


def _problem(found: Finding, ports: Sequence[str]) -> dict[str, Any]:
    values = found.values
    return {
        "level": level(found),
        "fact": found.part or None,
        "ports": list(ports),
        "seen": printable(str(values["seen"])),
        "expected": values["expected"],
        "source": values["source"],
        "read": printable(str(values["read"])),
        "fix": found.remedy,
        "finding": found.kind,
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value as JSON has it: a set as a sorted list, texts printable."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, str):
        return printable(value)
    if hasattr(value, "__dataclass_fields__"):
        return {key: _plain(each) for key, each in asdict(value).items()}
    return value
