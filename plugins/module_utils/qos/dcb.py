"""DCB by iproute2's dcb. Runs on the node.

Sources: iproute2 dcb/*.c; what version 6.1 prints is in tests/fixtures/dcb.
"""

from __future__ import annotations

import json
from typing import Any

from ..machine import CommandFailed, Machine, NodeError
from ..plan import Refused
from .state import Seen, eight

_NO_DCB = "Operation not supported"
_NO_PFC = (False,) * 8


class Dcb:
    """The tool on a node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def read(self, netdev: str) -> Seen | None:
        """Return what a port is, None if it has no DCB."""
        pfc, ets = self._show("pfc", netdev), self._show("ets", netdev)
        if pfc is None or ets is None:
            return None
        app, buffer = self._show("app", netdev) or {}, self._show("buffer", netdev)
        dcbx = self._show("dcbx", netdev)
        return Seen(
            # A driver with no dcbx has nothing but the host to decide.
            host=dcbx is None or _is_on(dcbx.get("host", False)),
            # iproute2 6.15 has a third, empty element in each entry.
            entries=tuple((int(each[0]), int(each[1])) for each in app.get("dscp_prio", [])),
            pfc=tuple(_is_on(each) for each in pfc.get("prio_pfc", _NO_PFC)),
            cable_length_m=int(pfc.get("delay", 0)),
            tsa=tuple(str(each) for each in ets["tc_tsa"]),
            percent=eight(ets["tc_bw"], f"{netdev}: tc_bw of dcb ets show"),
            classes=eight(ets["prio_tc"], f"{netdev}: prio_tc of dcb ets show"),
            priority_buffer=None if buffer is None else eight(buffer["prio_buffer"], netdev),
            buffer_bytes=None if buffer is None else eight(buffer["buffer_size"], netdev),
        )

    def control(self, netdev: str, host: bool) -> list[list[str]]:
        """Have the host decide, or the firmware."""
        if not host:
            raise Refused(
                f"{netdev}: dcb cannot give DCBX to the firmware: install mlnx_qos (mlnx-tools), "
                "or write roce_qos_dcbx: host"
            )
        return [["dcb", "dcbx", "set", "dev", netdev, "host", "ieee", "cee"]]

    def trust(self, netdev: str, seen: Seen, entries: list[tuple[int, int]]) -> list[list[str]]:
        """Have these entries in the map beside others; with none, trust PCP."""
        if not entries:
            return [["dcb", "app", "flush", "dev", netdev, "dscp-prio"]]
        words = [f"{dscp}:{priority}" for dscp, priority in entries]
        commands = [["dcb", "app", "add", "dev", netdev, "dscp-prio", *words]]
        # mlx5 drops a DSCP's former entry by itself and refuses to drop it again. Other drivers
        # keep both, where the higher priority counts.
        wanted = dict(entries)
        former = [each for each in seen.entries if wanted.get(each[0], each[1]) != each[1]]
        if former:
            words = [f"{dscp}:{priority}" for dscp, priority in former]
            commands.append(["dcb", "app", "del", "dev", netdev, "dscp-prio", *words])
        return commands

    def pfc(self, netdev: str, pfc: tuple[bool, ...], cable_length_m: int) -> list[list[str]]:
        """Have PFC on these priorities alone, for this length of cable."""
        words = [f"{priority}:on" for priority, on in enumerate(pfc) if on]
        length = ["delay", str(cable_length_m)]
        return [["dcb", "pfc", "set", "dev", netdev, "prio-pfc", "all:off", *words, *length]]

    def ets(
        self, netdev: str, tsa: tuple[str, ...], percent: tuple[int, ...], classes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have classes served like this."""
        words = ["tc-tsa", *_index(tsa), "tc-bw", *_index(percent)]
        return [["dcb", "ets", "set", "dev", netdev, *words, "prio-tc", *_index(classes)]]

    def buffers(
        self, netdev: str, priority_buffer: tuple[int, ...], buffer_bytes: tuple[int, ...]
    ) -> list[list[str]]:
        """Have receive buffers like this."""
        words = ["prio-buffer", *_index(priority_buffer), "buffer-size", *_index(buffer_bytes)]
        return [["dcb", "buffer", "set", "dev", netdev, *words]]

    def _show(self, what: str, netdev: str) -> dict[str, Any] | None:
        """Return what dcb shows of a port, None if the port has no such thing."""
        argv = ["dcb", "-N", "-j", what, "show", "dev", netdev]
        try:
            text = self.machine.run(argv)
        except CommandFailed as error:
            if _NO_DCB in error.output:
                return None
            raise
        try:
            shown: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise NodeError("{}: no JSON: {}".format(" ".join(argv), text[:80])) from error
        return shown


def _index(values: tuple[Any, ...]) -> list[str]:
    return [f"{index}:{value}" for index, value in enumerate(values)]


def _is_on(value: object) -> bool:
    """Return whether a flag is on: iproute2's JSON has had both forms."""
    return value in (True, "on")
