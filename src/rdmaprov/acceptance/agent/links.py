"""What the kernel counted for this process: bytes by device, segments sent again."""

from __future__ import annotations

import os
import socket
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


def connections() -> list[dict[str, Any]]:
    """Return this process's TCP connections: addresses, segments sent, and sent again."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            with socket.socket(fileno=os.dup(int(entry.name))) as each:
                if each.type == socket.SOCK_STREAM and each.family != socket.AF_UNIX:
                    found.append(_connection(each))
        except OSError:
            continue  # no socket, or one that listens
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
