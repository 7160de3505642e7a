"""Judged switches as data, for --json; docs/switches.md defines each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.switches.judge import SwitchAssessment, exit_code, nodes_without_port
from rdmaprov.switches.model import SwitchPort
from rdmaprov.switches.problem import level
from rdmaprov.switches.wanted import WantedSwitch


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
