"""What the kernel counted for this process: bytes by device, segments sent again."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import Any

# include/uapi/linux/tcp.h, struct tcp_info: tcpi_total_retrans, tcpi_segs_out, and since Linux 5.0
# tcpi_dsack_dups. The latter is what a peer had already: a timer fired early, and nothing was lost.
_RETRANSMITTED = struct.Struct("@100xI")
_SENT = struct.Struct("@136xI")
_NEEDLESS = struct.Struct("@216xI")
_TCP_INFO_BYTES = 232


def sent_bytes() -> dict[str, int]:
    """Return the bytes that each network device has sent since it came up."""
    found = {}
    for device in Path("/sys/class/net").iterdir():
        try:
            found[device.name] = int((device / "statistics/tx_bytes").read_text())
        except (OSError, ValueError):
            continue  # bonding_masters is a file; a device may go away
    return found


def moved_bytes(before: dict[str, int]) -> dict[str, int]:
    """Return what each device sent since then; those that sent nothing are left out."""
    after = sent_bytes()
    moved = {name: after.get(name, 0) - count for name, count in before.items()}
    return {name: count for name, count in moved.items() if count > 0}


class LinkCounter:
    """What this process's TCP connections from an address count, since the last look."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._before = self._count()

    def changes(self) -> list[dict[str, Any]]:
        """Return, for each peer, the segments since the last look."""
        before, self._before = self._before, self._count()
        found = []
        for peer, (segments, again) in self._before.items():
            old_segments, old_again = before.get(peer, (0, 0))
            # Fewer than before: a connection was closed, and another one made.
            if segments < old_segments:
                old_segments = old_again = 0
            # Word that a segment was sent again needlessly may come after the last look.
            change = {"segments": segments - old_segments, "again": max(0, again - old_again)}
            if change["segments"]:
                found.append({"from": self._address, "to": peer, **change})
        return found

    def _count(self) -> dict[str, tuple[int, int]]:
        counted: dict[str, tuple[int, int]] = {}
        for each in connections():
            if each["from"] == self._address:
                segments, again = counted.get(each["to"], (0, 0))
                counted[each["to"]] = segments + each["segments"], again + each["again"]
        return counted


def connections() -> list[dict[str, Any]]:
    """Return this process's TCP connections: addresses, segments sent, and sent again."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            # A copy of what is no socket would stay open, as nobody could close it.
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as each:
                if each.type == socket.SOCK_STREAM and each.family != socket.AF_UNIX:
                    found.append(_connection(each))
        except OSError:
            continue  # one that listens, or was closed
    return found


def _connection(each: socket.socket) -> dict[str, Any]:
    info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    info = info.ljust(_TCP_INFO_BYTES, b"\0")  # an older kernel has less of it
    again, needless = _RETRANSMITTED.unpack_from(info)[0], _NEEDLESS.unpack_from(info)[0]
    peer = each.getpeername()[0]
    return {
        "from": _plain(each.getsockname()[0]),
        "to": _plain(peer),
        "segments": _SENT.unpack_from(info)[0],
        "again": max(0, again - needless),
    }


def _plain(address: str) -> str:
    """Return an IPv4 address as such, also where a socket of IPv6 has it."""
    return address.removeprefix("::ffff:").partition("%")[0]
