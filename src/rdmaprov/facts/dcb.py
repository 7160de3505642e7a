"""The DCB state of a port, as iproute2's `dcb` shows it. Reading it needs no root.

Sources: iproute2 dcb/*.c; Linux drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, parse_json, whole

OBJECTS = ("app", "pfc", "ets", "buffer", "dcbx")
_NO_DCB = "Operation not supported"


@dataclass(frozen=True)
class Dcb:
    """What a port's DCB is; where there is one value for each priority or class, eight."""

    host: bool  # the host decides, not the firmware by DCBX
    # priority by DSCP, of those DSCPs that the map lists. mlx5 lists some only where the port
    # trusts DSCP; there is no other sign of trust.
    priorities: Mapping[int, int]
    pfc: frozenset[int]
    cable_length_m: int  # from which the firmware derives when to send a pause
    tsa: tuple[str, ...]  # how each traffic class is served: strict, ets, vendor
    percent: tuple[int, ...]  # of what strict classes leave, each class's share; only for ets
    classes: tuple[int, ...]
    priority_buffer: tuple[int, ...] | None  # receive buffers; None where the port shows none
    buffer_bytes: tuple[int, ...] | None

    @property
    def trust(self) -> str:
        """Return what the port reads a packet's priority from: dscp or pcp."""
        return "dscp" if self.priorities else "pcp"

    @property
    def shares(self) -> tuple[int, ...]:
        """Return each ETS class's percent; 0 for other classes, and for all beside one with 100.

        For those mlx5e shows how they share what is left: nothing, while the one sends.
        """
        ets = [p if tsa == "ets" else 0 for tsa, p in zip(self.tsa, self.percent, strict=True)]
        return tuple(p if p == 100 or 100 not in ets else 0 for p in ets)

    def priority_of(self, dscp: int) -> int:
        """Return the priority of a packet with this DSCP and no VLAN tag.

        A port that trusts PCP gives it 0. mlx5 writes 0 for a DSCP whose entry is removed, and
        loads all 64 entries where it trusts DSCP; so one that is not listed is 0 as well.
        """
        return self.priorities.get(dscp, 0)


def read(host: Host, netdev: str) -> Dcb | None:
    """Return a port's DCB, None for a port that has none (a virtual function, InfiniBand)."""
    name = shlex.quote(netdev)
    # Its exit status is of no use (iproute2 6.1 errs in both directions): what it prints is.
    shows = "; ".join(
        f"echo '== {each}'; dcb -N -j {each} show dev {name} 2>&1; echo" for each in OBJECTS
    )
    return parse(host.run(f"LC_ALL=C; export LC_ALL; {shows}; echo {END}").stdout, netdev)


@remember
def parse(stdout: str, netdev: str) -> Dcb | None:
    """Return what `dcb -N -j OBJECT show dev NETDEV` printed for each of OBJECTS in turn."""
    blocks = _blocks(whole(stdout, f"dcb show dev {netdev}"))
    if missing := [each for each in OBJECTS if each not in blocks]:
        raise CouldNotTell(f"dcb {missing[0]} show dev {netdev}: the output is truncated")
    if _NO_DCB in blocks["pfc"] and _NO_DCB in blocks["ets"]:
        return None
    shown = {each: _object(blocks[each], each, netdev) for each in OBJECTS}
    app, pfc, ets, buffer = (shown[each] for each in OBJECTS[:4])
    if pfc is None or ets is None:
        raise CouldNotTell(f"dcb pfc show dev {netdev}: it shows only one of PFC and ETS")
    flags = _eight(pfc, "prio_pfc", netdev)
    return Dcb(
        host=shown["dcbx"] is None or _is_on(shown["dcbx"].get("host", False)),
        # iproute2 6.15 has a third, empty element in each entry.
        priorities={int(each[0]): int(each[1]) for each in (app or {}).get("dscp_prio", [])},
        pfc=frozenset(priority for priority, flag in enumerate(flags) if _is_on(flag)),
        cable_length_m=int(pfc.get("delay", 0)),
        tsa=tuple(str(each) for each in _eight(ets, "tc_tsa", netdev)),
        percent=_numbers(ets, "tc_bw", netdev),
        classes=_numbers(ets, "prio_tc", netdev),
        priority_buffer=None if buffer is None else _numbers(buffer, "prio_buffer", netdev),
        buffer_bytes=None if buffer is None else _numbers(buffer, "buffer_size", netdev),
    )


def _blocks(body: str) -> dict[str, str]:
    parts = re.split(r"(?m)^== (\w+)\n", body)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _object(text: str, what: str, netdev: str) -> dict[str, Any] | None:
    command = f"dcb {what} show dev {netdev}"
    if _NO_DCB in text:
        return None
    if "not found" in text:
        raise CouldNotTell(f"{command}: dcb is not installed", "apt-get install iproute2")
    # iproute2 6.1 prints a line of error beside good JSON now and then.
    lines = [line for line in text.splitlines() if line.lstrip().startswith(("{", "[", '"'))]
    if not lines:
        raise CouldNotTell(f"{command}: {text.strip()[:80] or 'no output'}")
    shown = parse_json("\n".join(lines), command)
    if not isinstance(shown, dict):
        raise CouldNotTell(f"{command}: {text[:60]!r} is not a JSON object")
    return shown


def _eight(shown: dict[str, Any], key: str, netdev: str) -> list[Any]:
    values = shown.get(key)
    if not isinstance(values, list) or len(values) < 8:
        raise CouldNotTell(f"dcb show dev {netdev}: {key} is {values}, not eight values")
    return values[:8]


def _numbers(shown: dict[str, Any], key: str, netdev: str) -> tuple[int, ...]:
    values = _eight(shown, key, netdev)
    if not all(isinstance(each, int) for each in values):
        raise CouldNotTell(f"dcb show dev {netdev}: {key} is {values}, not eight numbers")
    return tuple(values)


def _is_on(value: object) -> bool:
    """Return whether a flag is on: iproute2's JSON has had both forms."""
    return value in (True, "on")
