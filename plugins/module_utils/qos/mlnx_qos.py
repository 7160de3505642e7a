"""DCB by NVIDIA's mlnx_qos, for what iproute2's dcb cannot do. Runs on the node.

Source: Mellanox/mlnx-tools python/mlnx_qos; what it prints is in tests/fixtures/mlnx_qos.
"""

from __future__ import annotations

import re

from ..machine import CommandFailed, Machine, NodeError
from .state import Seen

# Its last words where it can read nothing: the only way in which reading ends with an error of its
# own. The same sentence about buffers or trust alone is no such sign.
_NO_DCB = "ETS features are not supported on your system"


class MlnxQos:
    """The tool on a node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def read(self, netdev: str) -> Seen | None:
        """Return what a port is, None if it has no DCB."""
        try:
            text = self.machine.run(["mlnx_qos", "-i", netdev, "-a"])
        except CommandFailed as error:
            if _NO_DCB in error.output:
                return None
            # Its mistakes are tracebacks, of which the last line says what happened.
            raise unreadable(netdev, error.output.rpartition("\n")[2], "a listing") from error
        return parse(text, netdev)

    def control(self, netdev: str, host: bool) -> list[list[str]]:
        """Have the host decide, or the firmware."""
        return [["mlnx_qos", "-i", netdev, "-d", "os" if host else "fw"]]

    def trust(self, netdev: str, seen: Seen, entries: list[tuple[int, int]]) -> list[list[str]]:
        """Have these entries in the map beside others; with none, trust PCP."""
        if not entries:
            return [["mlnx_qos", "-i", netdev, "--trust", "pcp"]]
        words = [f"--dscp2prio=set,{dscp},{priority}" for dscp, priority in entries]
        # It takes no --trust beside --dscp2prio. Where the driver has trust in sysfs, entries do
        # not change it; so it is asked for after them too, which does nothing where it is right.
        trust = ["mlnx_qos", "-i", netdev, "--trust", "dscp"]
        before = [] if seen.trust == "dscp" else [trust]
        return [*before, ["mlnx_qos", "-i", netdev, *words], trust]

    def pfc(self, netdev: str, pfc: tuple[bool, ...], cable_length_m: int) -> list[list[str]]:
        """Have PFC on these priorities alone, for this length of cable.

        Both in one command: before mlnx-tools 83b87d9 (2024) either alone resets the other.
        """
        on = ",".join(str(int(each)) for each in pfc)
        return [["mlnx_qos", "-i", netdev, "--cable_len", str(cable_length_m), "--pfc", on]]

    def ets(
        self, netdev: str, tsa: tuple[str, ...], percent: tuple[int, ...], classes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have classes served like this."""
        words = ["--tsa", ",".join(tsa), "--tcbw", _join(percent), "--prio_tc", _join(classes)]
        return [["mlnx_qos", "-i", netdev, *words]]

    def buffers(
        self, netdev: str, priority_buffer: tuple[int, ...], buffer_bytes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have receive buffers like this.

        mlx5 refuses a lossless priority in a buffer that is too small for it, so by netlink both
        go in one message. With sysfs the tool sets only the sizes when given both; the map
        follows alone, and then the sizes once more, which the former map may have forbidden.
        """
        tool = ["mlnx_qos", "-i", netdev]
        sizes = ["--buffer_size", _join(buffer_bytes)]
        to_buffers = ["--prio2buffer", _join(priority_buffer)]
        return [[*tool, *to_buffers, *sizes], [*tool, *to_buffers], [*tool, *sizes]]


def _join(values: tuple[int, ...]) -> str:
    return ",".join(str(each) for each in values)


# What `mlnx_qos -i NETDEV -a` prints, read so that part of it is never taken for it. Source:
# `pretty_print` of Mellanox/mlnx-tools python/mlnx_qos, versions of 2017 to 2026. Lines that are of
# no interest here (warnings before it, `default priority:`) may be anywhere.
_EIGHT = r"(?:\d\s+){7}\d"
_CLASS = re.compile(r"tc: ([0-7]) ratelimit: [^,]+, tsa: (?:(strict|vendor)|ets, bw: (\d+)%)")
_PRIORITY = re.compile(r"priority:\s+([0-7])")
_ENTRIES = re.compile(r"prio:([0-7]) dscp:((?:[0-6]\d,)+)")
_SIZES = re.compile(r"((?:\d+,){8})(?:\w+=\d+)?")  # some versions add the port's total


def parse(text: str, netdev: str) -> Seen:
    """Return what mlnx_qos -a printed; raise NodeError if that is not all, or of another form."""
    lines = [line.strip() for line in text.splitlines()]
    trust = _value(lines, "Priority trust state:", "dscp|pcp", netdev)
    tsa, percent, classes = _traffic_classes(lines, netdev)
    priority_buffer, buffer_bytes = _buffers(lines, netdev)
    return Seen(
        host=_value(lines, "DCBX mode:", "(?:OS|Firmware) controlled", netdev).startswith("OS"),
        entries=_entries(lines, netdev) if trust == "dscp" else (),
        pfc=tuple(each == "1" for each in _value(lines, "enabled", _EIGHT, netdev).split()),
        cable_length_m=int(_value(lines, "Cable len:", r"\d+", netdev)),
        tsa=tsa,
        percent=percent,
        classes=classes,
        priority_buffer=priority_buffer,
        buffer_bytes=buffer_bytes,
    )


def unreadable(netdev: str, seen: str, wanted: str) -> NodeError:
    """Return the error for what the tool printed and is not known of it."""
    return NodeError(
        f"{netdev}: {seen or 'nothing'!r}, expected {wanted} (mlnx_qos -i {netdev} -a); "
        "if this version prints something else, write roce_qos_backend: dcb"
    )


def _value(lines: list[str], name: str, form: str, netdev: str) -> str:
    """Return what follows a name, of which there must be one line."""
    found = [line[len(name) :].strip() for line in lines if line.startswith(name)]
    if len(found) != 1:
        raise unreadable(netdev, f"{len(found)} lines {name}", "one")
    if not re.fullmatch(form, found[0]):
        raise unreadable(netdev, f"{name} {found[0]}", form)
    return found[0]


def _entries(lines: list[str], netdev: str) -> tuple[tuple[int, int], ...]:
    """Return the DSCP map. A port that trusts DSCP has at least one entry."""
    entries = []
    for line in lines:
        if line.startswith("prio:"):
            found = _match(_ENTRIES, line, netdev)
            entries += [(int(dscp), int(found[1])) for dscp in found[2].split(",") if dscp]
    if not entries or max(dscp for dscp, _ in entries) > 63:
        raise unreadable(netdev, "trust of DSCP and no map of it", "prio:PRIORITY dscp:DSCP,...")
    return tuple(entries)


def _buffers(
    lines: list[str], netdev: str
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return priorities' buffers and their sizes, None where the port shows none."""
    names = ("buffer ", "Receive buffer size (bytes):")
    if not any(line.startswith(names) for line in lines):
        return None, None
    numbers = _value(lines, names[0], _EIGHT, netdev).split()
    sizes = _match(_SIZES, _value(lines, names[1], ".+", netdev), netdev)[1]
    return (
        tuple(int(each) for each in numbers),
        tuple(int(each) for each in sizes.split(",") if each),
    )


def _traffic_classes(
    lines: list[str], netdev: str
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    """Return how classes are served, their shares, and each priority's class.

    A class's line is followed by those of its priorities. Without maximum rates the tool leaves
    out the class's number; that is an error here.
    """
    served: dict[int, tuple[str, int]] = {}
    classes: dict[int, int] = {}
    for line in lines:
        if line.startswith("tc:"):
            found = _match(_CLASS, line, netdev)
            served[int(found[1])] = (found[2] or "ets", int(found[3] or 0))
        elif line.startswith("priority:"):
            if not served:
                raise unreadable(netdev, line, "a class before it (tc: ...)")
            classes[int(_match(_PRIORITY, line, netdev)[1])] = list(served)[-1]
    if sorted(served) != list(range(8)) or sorted(classes) != list(range(8)):
        seen = f"{len(served)} classes with {len(classes)} priorities"
        raise unreadable(netdev, seen, "8 and 8")
    return (
        tuple(served[tc][0] for tc in range(8)),
        tuple(served[tc][1] for tc in range(8)),
        tuple(classes[priority] for priority in range(8)),
    )


def _match(form: re.Pattern[str], line: str, netdev: str) -> re.Match[str]:
    found = form.fullmatch(line)
    if found is None:
        raise unreadable(netdev, line, form.pattern)
    return found
