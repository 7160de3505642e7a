"""DCB by NVIDIA's mlnx_qos, for what iproute2's dcb cannot do. Runs on the node.

Source: Mellanox/mlnx-tools python/mlnx_qos; what it prints is in tests/fixtures/mlnx_qos.
"""

from __future__ import annotations

import re

from ..machine import CommandFailed, Machine, NodeError
from .state import Seen, eight

_NO_DCB = ("are not supported on your system", "Operation not supported")


class MlnxQos:
    """The tool on a node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def read(self, netdev: str) -> Seen | None:
        """Return what a port is, None if it has no DCB."""
        try:
            text = self.machine.run(["mlnx_qos", "-i", netdev, "-a"])
        except CommandFailed as error:
            if any(each in error.output for each in _NO_DCB):
                return None
            raise
        return parse(text, netdev)

    def control(self, netdev: str, host: bool) -> list[list[str]]:
        """Have the host decide, or the firmware."""
        return [["mlnx_qos", "-i", netdev, "-d", "os" if host else "fw"]]

    def trust(self, netdev: str, seen: Seen, entries: list[tuple[int, int]]) -> list[list[str]]:
        """Have these entries in the map beside others; with none, trust PCP."""
        if not entries:
            return [["mlnx_qos", "-i", netdev, "--trust", "pcp"]]
        words = [f"--dscp2prio=set,{dscp},{priority}" for dscp, priority in entries]
        # It takes no --trust beside --dscp2prio.
        trust = ["mlnx_qos", "-i", netdev, "--trust", "dscp"]
        return [*([] if seen.trust == "dscp" else [trust]), ["mlnx_qos", "-i", netdev, *words]]

    def pfc(self, netdev: str, pfc: tuple[bool, ...], cable_length_m: int) -> list[list[str]]:
        """Have PFC on these priorities alone, for this length of cable."""
        on = ",".join(str(int(each)) for each in pfc)
        return [["mlnx_qos", "-i", netdev, "--cable_len", str(cable_length_m), "--pfc", on]]

    def ets(
        self,
        netdev: str,
        tsa: tuple[str, ...],
        percent: tuple[int, ...],
        classes: tuple[int, ...],
    ) -> list[list[str]]:
        """Have classes served like this."""
        words = ["--tsa", ",".join(tsa), "--tcbw", _joined(percent), "--prio_tc", _joined(classes)]
        return [["mlnx_qos", "-i", netdev, *words]]

    def buffers(
        self, netdev: str, priority_buffer: tuple[int, ...], buffer_bytes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have receive buffers like this."""
        # With sysfs it sets only one of the two when given both.
        return [
            ["mlnx_qos", "-i", netdev, "--prio2buffer", _joined(priority_buffer)],
            ["mlnx_qos", "-i", netdev, "--buffer_size", _joined(buffer_bytes)],
        ]


def parse(text: str, netdev: str) -> Seen:
    """Return what mlnx_qos -a printed.

    Raises:
        NodeError: it did not print what is known of it.

    """
    sizes = re.search(r"^Receive buffer size \(bytes\): ([\d,]+)", text, re.M)
    buffers = re.search(r"^\tbuffer +([\d ]+)$", text, re.M)
    tsa, percent, classes = _traffic_classes(text, netdev)
    return Seen(
        host=_find(r"^DCBX mode: (\w+) controlled", text, netdev) == "OS",
        entries=_entries(text, netdev),
        pfc=tuple(
            each == "1" for each in _find(r"^\tenabled +([\d ]+)$", text, netdev).split()[:8]
        ),
        cable_length_m=int(_find(r"^Cable len: (\d+)", text, netdev)),
        tsa=tsa,
        percent=percent,
        classes=classes,
        priority_buffer=None if buffers is None else eight(_ints(buffers[1].split()), netdev),
        buffer_bytes=None if sizes is None else eight(_ints(sizes[1].split(",")), netdev),
    )


def _entries(text: str, netdev: str) -> tuple[tuple[int, int], ...]:
    if _find(r"^Priority trust state: (\w+)", text, netdev) != "dscp":
        return ()
    return tuple(
        (dscp, int(priority))
        for priority, dscps in re.findall(r"^\tprio:(\d) dscp:([\d,]+)$", text, re.M)
        for dscp in _ints(dscps.split(","))
    )


def _traffic_classes(
    text: str, netdev: str
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    """Return how classes are served, their shares, and each priority's class."""
    tsa, percent, classes = {}, {}, {}
    pattern = r"^tc: (\d) ratelimit: .*?, tsa: (\w+)(?:, bw: (\d+)%)?((?:\n\t priority:  \d)*)$"
    for tc, name, share, priorities in re.findall(pattern, text, re.M):
        tsa[int(tc)], percent[int(tc)] = name, int(share or 0)
        for priority in re.findall(r"priority:  (\d)", priorities):
            classes[int(priority)] = int(tc)
    for found in (tsa, classes):
        if sorted(found) != list(range(8)):
            raise NodeError(f"{netdev}: mlnx_qos -i {netdev} -a does not show all 8 classes")
    return (
        tuple(tsa[tc] for tc in range(8)),
        tuple(percent[tc] for tc in range(8)),
        tuple(classes[priority] for priority in range(8)),
    )


def _find(pattern: str, text: str, netdev: str) -> str:
    found = re.search(pattern, text, re.M)
    if found is None:
        raise NodeError(f"{netdev}: mlnx_qos -i {netdev} -a prints no line like {pattern}")
    return found[1]


def _ints(words: list[str]) -> list[int]:
    return [int(word) for word in words if word]


def _joined(values: tuple[int, ...]) -> str:
    return ",".join(str(each) for each in values)
