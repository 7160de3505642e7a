"""A port in the configuration of Arista EOS: what its profile, its port channel and itself set.

The commands: Arista's EOS User Manual, "Quality of Service" and "Priority Flow Control"; how they
are written in a configuration: aristanetworks/avd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.switches.model import EcnCurve, PfcWatchdog, QueueShare, SwitchFact
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import members, numbers, whole, words

_CURVE = re.compile(
    r"minimum-threshold (\d{1,9})(?: (\w+))? maximum-threshold (\d{1,9})(?: (\w+))?"
    r"(?: max-mark-probability (\d{1,3}))?\b.*",
    re.ASCII,
)
_QUEUE = re.compile(r"(?:uc-)?tx-queue ([0-9]{1,2})")
_CLASS = re.compile(r"traffic-class ([0-7])\b.*")
_PRIORITY = re.compile(r"([0-7]) (no-drop|drop)")
_RATE = re.compile(r"(?:forced )?([0-9]{1,4})g")
_WATCHDOG = "priority-flow-control pause watchdog"
_PFC = {
    "priority-flow-control on": True,
    "priority-flow-control mode on": True,  # is written, too
    "no priority-flow-control": False,
}


@dataclass(frozen=True)
class CommonSettings:
    """What the configuration says for all ports."""

    profiles: Mapping[str, EosSection]
    channels: Mapping[str, EosSection]
    # `interface profile`s, by name, as the lines that they stand for
    templates: Mapping[str, EosSection]
    defaults: EosSection
    dscp_class: Mapping[int, int]  # DSCP to traffic class, where it is written
    class_queue: Mapping[int, int]
    watchdog: PfcWatchdog
    has_no_pfc: bool  # whether PFC is off for the whole switch
    marks_buffer: bool  # whether ECN follows the buffer of the whole switch

    @classmethod
    def of(cls, config: EosSection) -> CommonSettings:
        """Return those of a configuration."""
        timeout = config.last(f"{_WATCHDOG} default timeout ")
        return cls(
            dict(config.under("qos profile ")),
            dict(config.under("interface Port-Channel")),
            {name: _template(each) for name, each in config.under("interface profile ")},
            config.lines.get("interface defaults", EosSection()),
            dict(_mapped(config, "qos map dscp ", 63, _CLASS)),
            _queue_map(config),
            PfcWatchdog(
                bool(timeout and timeout.strip("0.")), config.last(f"{_WATCHDOG} action ") or ""
            ),
            config.has("priority-flow-control all off"),
            config.last("qos random-detect ecn global-buffer ") is not None,
        )


def _template(profile: EosSection) -> EosSection:
    """Return the lines of an `interface profile`, which has none below others."""
    return EosSection({line: EosSection() for line, _ in profile.under("command ")})


def port_facts(own: EosSection, common: CommonSettings) -> dict[str, Any]:
    """Return the facts of a port: the later of channel, its profile, the port and its wins."""
    channel = common.channels.get((own.last("channel-group ") or "").partition(" ")[0])
    template = common.templates.get(own.last("profile ") or "")
    parts = [part for part in (channel, template, own) if part is not None]
    sections, is_whole = _with_profiles(parts, common)
    if own.last("profile ") is not None:
        is_whole = is_whole and template is not None and not list(_queues([template]))
    paused = frozenset() if common.has_no_pfc else _paused(sections)
    curves = _curves(sections)
    speed = _RATE.match(own.last("speed ") or "")
    # A policy of the port classifies by rules, which are not read.
    has_policy = any(each.last("service-policy type qos input ") for each in sections)
    return {
        "description": words(own.last("description ")),
        "is_up": False if _is_shut(parts, common.defaults) else None,
        "speed_gbps": int(speed[1]) if speed else None,
        "mtu_bytes": next((m for p in (*parts[::-1], common.defaults) if (m := _mtu(p))), None),
        "pfc_rx": paused if is_whole else None,
        "pfc_tx": paused if is_whole else None,
        "trusts_dscp": _trusts_dscp(sections) if is_whole else None,
        "dscp_class": None if has_policy else common.dscp_class or None,
        "class_queue": common.class_queue,
        "ecn": curves if is_whole and (curves or not common.marks_buffer) else None,
        "shares": _shares(sections),
        "watchdog": _watchdog(sections, common.watchdog),
        "named": _named(parts, common, sections),
    }


def _is_shut(parts: list[EosSection], defaults: EosSection) -> bool:
    for part in reversed(parts):
        if part.has("shutdown") or part.has("no shutdown"):
            return part.has("shutdown")
    return any(inner.has("shutdown") for _, inner in defaults.under("ethernet"))


def _named(
    parts: list[EosSection], common: CommonSettings, sections: list[EosSection]
) -> dict[SwitchFact, str]:
    """Return by fact the profile that sets it, or the port where a line of its own does."""
    queue = next((line for each in sections for line in each.lines if _QUEUE.fullmatch(line)), "")
    word = "tx-queue" if queue.startswith("tx-queue") else "uc-tx-queue"
    starts = {
        SwitchFact.PFC: ("priority-flow-control", "no priority-flow-control"),
        SwitchFact.TRUST: ("qos trust",),
        SwitchFact.ECN: ("tx-queue", "uc-tx-queue"),
    }
    found = dict.fromkeys(starts, "interface PORT")
    for fact, begins in starts.items():
        for part in parts:
            if (name := part.last("service-profile ")) in common.profiles:
                found[fact] = f"qos profile {name}"
            if any(line.startswith(begins) for line in part.lines):
                found[fact] = "interface PORT"
    return found | {SwitchFact.ECN: f"{found[SwitchFact.ECN]}; {word}"}


def _mtu(section: EosSection) -> int | None:
    return whole(section.last("mtu "), most=65535)


def _with_profiles(
    parts: list[EosSection], common: CommonSettings
) -> tuple[list[EosSection], bool]:
    """Return the parts, each after its profile, and whether no profile is missing."""
    sections, is_whole = [], True
    for part in parts:
        name = part.last("service-profile ")
        if name is not None and name in common.profiles:
            sections.append(common.profiles[name])
        is_whole = is_whole and (name is None or name in common.profiles)
        sections.append(part)
    return sections, is_whole


def _paused(sections: list[EosSection]) -> frozenset[int]:
    """Return the priorities with PFC, which is off by default."""
    is_on, found = False, set[int]()
    for section in sections:
        for line in section.lines:
            is_on = _PFC.get(line, is_on)
        for rest, _ in section.under("priority-flow-control priority "):
            priority = _PRIORITY.fullmatch(rest)
            if priority is not None:
                number = int(priority[1])
                found = found | {number} if priority[2] == "no-drop" else found - {number}
    return frozenset(found) if is_on else frozenset()


def _trusts_dscp(sections: list[EosSection]) -> bool | None:
    trusts = [rest for section in sections for rest, _ in section.under("qos trust ")]
    return None if not trusts else trusts[-1] == "dscp"


def _queues(sections: list[EosSection]) -> Iterator[tuple[int, EosSection]]:
    for section in sections:
        for line, inside in section.lines.items():
            found = _QUEUE.fullmatch(line)
            if found is not None:
                yield int(found[1]), inside


def _curves(sections: list[EosSection]) -> dict[int, EcnCurve]:
    """Return the queues that mark, which none does by default."""
    found = {}
    for queue, inside in _queues(sections):
        for rest, _ in inside.under("random-detect ecn "):
            curve = _CURVE.fullmatch(rest)
            if curve is not None:
                unit, percent = curve[4] or curve[2] or "bytes", whole(curve[5], 0, 100)
                found[queue] = EcnCurve(True, int(curve[1]), int(curve[3]), unit, percent)
        if inside.has("no random-detect ecn"):
            found[queue] = EcnCurve(is_on=False)
    return found


def _shares(sections: list[EosSection]) -> dict[int, QueueShare] | None:
    found = {}
    for queue, inside in _queues(sections):
        percent = whole(inside.last("bandwidth percent "), 0, 100)
        if inside.has("priority strict") or percent is not None:
            found[queue] = QueueShare(inside.has("priority strict"), percent)
    return found or None


def _watchdog(sections: list[EosSection], common: PfcWatchdog) -> PfcWatchdog:
    """Return whether the watchdog is on, for the port or for all."""
    is_on, action = common.is_on, common.action
    for section in sections:
        is_on = is_on or section.has(_WATCHDOG)
        action = section.last(f"{_WATCHDOG} port action ") or action
    return PfcWatchdog(is_on, action)


def _queue_map(config: EosSection) -> dict[int, int]:
    """Return the queue of each class: that of its number, unless a line says otherwise."""
    usual = {number: number for number in range(8)}
    return usual | dict(_mapped(config, "qos map traffic-class ", 7, _QUEUE))


def _mapped(
    config: EosSection, start: str, most: int, target: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    """Yield what lines map: each number up to a largest one, to that of a target."""
    for rest, _ in config.under(start):
        left, _, right = rest.partition(" to ")
        values, to = numbers(left, most), target.fullmatch(right)
        if values is not None and to is not None:
            yield from ((value, int(to[1])) for value in values)


_MOST_LINES = 400_000
_MOST_DEPTH = 8
_LONGEST = 1024


@dataclass
class EosSection:
    """The lines of a section, in their order; a line that opens a section has it."""

    lines: dict[str, EosSection] = field(default_factory=dict)

    def section(self, line: str) -> EosSection:
        """Return the section that a line opens, which is made if it is not there."""
        return self.lines.setdefault(line, EosSection())

    def under(self, start: str) -> Iterator[tuple[str, EosSection]]:
        """Yield what follows a beginning in each line that has it, and the line's section."""
        for line, inner in self.lines.items():
            if line.startswith(start):
                yield line[len(start) :].strip(), inner

    def has(self, line: str) -> bool:
        """Return whether a line is there."""
        return line in self.lines

    def last(self, start: str) -> str | None:
        """Return what follows a beginning in the last line that has it."""
        found = [rest for rest, _ in self.under(start)]
        return found[-1] if found else None


def is_config(answer: SavedAnswer) -> bool:
    """Return whether an answer is a running configuration, by what no other system writes."""
    if answer.document is not None:
        commands = members(members(answer.document).get("cmds"))
        return any(line.startswith(_JSON_LINES) for line in commands)
    return _TELLING.search(answer.text[: 1 << 20]) is not None


_JSON_LINES = ("interface Ethernet", "qos profile ", "qos map ", "priority-flow-control ")
_TELLING = re.compile(
    r"^[ \t]*(?:! device: .*\bEOS-|service-profile |random-detect ecn (?:minimum|count)"
    r"|qos map (?:dscp|cos|traffic-class) [0-9, -]+ to |(?:uc-)?tx-queue [0-9]+$"
    r"|priority-flow-control (?:on$|all off$|pause watchdog |priority [0-7] (?:no-)?drop$)"
    r"|transceiver qsfp default-mode |service routing protocols model |daemon TerminAttr$"
    r"|management api (?:http-commands|gnmi)$|interface Management[0-9]+$|mlag configuration$)",
    re.MULTILINE,
)


def config_of(answer: SavedAnswer) -> EosSection:
    """Return the sections of a running configuration."""
    root = EosSection()
    if answer.document is not None:
        _take(members(answer.document), root, 0)
    else:
        _read_text(answer.text, root)
    return root


def _take(document: Mapping[str, Any], into: EosSection, depth: int) -> None:
    """Add what JSON has: `cmds` maps each line to None, or to the section that it opens."""
    for line, below in members(document.get("cmds")).items():
        section = into.section(line.strip()[:_LONGEST])
        if depth < _MOST_DEPTH:
            _take(members(below), section, depth + 1)


def _read_text(text: str, root: EosSection) -> None:
    above: list[tuple[int, EosSection]] = [(-1, root)]
    for raw in text.split("\n")[:_MOST_LINES]:
        line = raw[:_LONGEST].rstrip()
        words = line.strip()
        if not words or words.startswith("!"):
            continue
        indent = len(line) - len(line.lstrip())
        while above[-1][0] >= indent:
            above.pop()
        section = above[-1][1].section(words)
        if len(above) <= _MOST_DEPTH:
            above.append((indent, section))
