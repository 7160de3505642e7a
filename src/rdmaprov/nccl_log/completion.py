"""NCCL's words about a path that fails, which name the rail and both of its ends.

A path fails in a completion with error, or before: `ibv_modify_qp` cannot connect it.

The forms are those of `ncclIbTest` and its like (src/transport/net_ib.cc, since 2.29
src/transport/net_ib/p2p.cc, gin.cc and p2p_resiliency.cc) and of src/misc/ibvwrap.cc, read at the
tags v2.8.4-1 to v2.30.7-1. The plugin of
nccl-rdma-sharp-plugins (src/ib_plugin.c) writes the same. GIDs are there on Ethernet alone, the HCA
since 2.22.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rdmaprov.nccl_log.events import Completion

# Numbers and names of `enum ibv_wc_status`, libibverbs/verbs.h of rdma-core, for those that NCCL's
# requests can end with.
_FLUSHED = 5
_GDR = (
    "check GPUDirect RDMA at {end} (nvidia_peermem, dma-buf, ACS) and the net plugin;"
    " NCCL_NET_GDR_LEVEL=LOC does without"
)
_SAME = "use one version of NCCL and of its plugin at both ends, and the same settings"
_PATH = (
    "test the path alone: ib_write_bw between these two HCAs; check cable, switch port, PFC and"
    " GIDs at both ends"
)
_DEVICE = "read dmesg -T and the counters of the HCA at this end; update its firmware"
_MEANINGS = {
    1: ("local length error", _SAME),
    2: ("local operation error in the queue pair", _DEVICE),
    3: ("local error of the end-to-end context", _DEVICE),
    4: ("local protection error: the HCA may not use the memory", _GDR.format(end="this end")),
    _FLUSHED: ("flushed after an earlier error", "look for the first error of this connection"),
    6: ("a memory window could not be bound", _DEVICE),
    7: ("the peer's answer was not understood", _SAME),
    8: ("local access error: the HCA may not use the memory", _GDR.format(end="this end")),
    9: ("the peer refused the request", f"{_SAME}; {_GDR.format(end='the peer')}"),
    10: ("the peer's memory may not be used", _GDR.format(end="the peer")),
    11: ("the peer could not perform the operation", "read dmesg -T at the peer"),
    12: ("no answer from the peer until the retries were used up", _PATH),
    13: (
        "the peer had no receive posted until the retries were used up",
        "look at the peer's process: it may be stopped, or busy",
    ),
    19: ("a fatal error of the HCA", _DEVICE),
    20: ("no answer in time", _PATH),
    21: ("an error of the HCA", _DEVICE),
}
# What ibv_modify_qp returns, by number of errno; the hints for 22 and 110 are NCCL's own.
_CALLS = {
    19: ("No such device", "run ibv_devinfo and show_gids: the port or its GID is gone"),
    22: ("Invalid argument", "unset NCCL_IB_GID_INDEX, and compare the GIDs of both ends"),
    101: ("Network is unreachable", "check the rail's address and route: ip route get"),
    110: (
        "Connection timed out",
        "check that the two ports reach each other (ib_write_bw). Where rails are not connected to"
        " each other set NCCL_CROSS_NIC=0, and NCCL_IB_HCA to the ports that are cabled",
    ),
    113: ("No route to host", "check the neighbor and the route of the rail: ip neigh, ip route"),
}

_START = re.compile(
    rb"NET/IB\w*(?:/GIN)? ?: ?(?:\w{1,60}: ?)?Got completion "
    rb"(?:from peer (?:([^\s<>]{1,64})(?:<(\d{1,5})>)? )?)?"
    rb"with (?:error |status=)(?:[\w ]{1,40}\(|\(devIndex=\d+, wc->status=\(\w*\))?(\d{1,3})\b"
)
# With "retrying" it is no failure yet. GIDs, device and number since 2.24.
_MODIFY = re.compile(
    rb"Call to ibv_modify_qp failed with (?:error )?(?:-?(\d{1,4}) )?([A-Z][\w ]{1,60})"
    rb"(?:, on dev ([\w.-]{1,64}):\d)?(?!.*retrying)"
)
_LOCAL_GID = re.compile(rb"local GID ([0-9a-fA-F:.]{2,45})(?:[,\s]|$)")
_REMOTE_GID = re.compile(rb"remote GID ([0-9a-fA-F:.]{2,45})(?:[,\s]|$)")
_VENDOR = re.compile(rb"vendor[ _]err[ =](\d{1,10})\b")
_REQUEST = re.compile(rb"(?:vendor err \d{1,10} \(|req_type=)(\w{1,16})")
_LOCAL = re.compile(rb"\blocalGid ([0-9a-fA-F:.]{2,45})(?:\s|$)")
_REMOTE = re.compile(rb"\bremoteGids? ?([0-9a-fA-F:.]{2,45})(?:\s|$)")
_HCA = re.compile(rb" hca ([\w.:-]{1,64})(?:\s|$)")


@dataclass(frozen=True, slots=True, order=True)
class CompletionError:
    """A completion with error, as one end of a connection saw it.

    Args:
        host: its host, as in the log; empty if unsaid.
        rank: its rank in the largest communicator of its log; None if unsaid.
        hca: its RDMA device; empty before NCCL 2.22.
        local_gid: the GID of that port, as an address; empty on InfiniBand.
        remote_gid: the other end's.
        peer: address of the other end on the control network; empty before 2.12.
        status: the number of `enum ibv_wc_status`, such as 12.
        vendor_err: the vendor's number, such as 129.
        request: what failed: `Send`, `Recv` or another; empty if unsaid.
        call: `ibv_modify_qp` if the path could not be connected: `status` is that of errno, 0 if
            unsaid; empty for a completion.

    """

    host: str
    rank: int | None
    hca: str
    local_gid: str
    remote_gid: str
    peer: str
    status: int
    vendor_err: int
    request: str
    call: str = ""

    @property
    def is_flush(self) -> bool:
        """Return whether it only follows another error of the same connection."""
        return self.status == _FLUSHED and not self.call

    @property
    def meaning(self) -> str:
        """Return what the status means."""
        return self._known[0]

    @property
    def remedy(self) -> str:
        """Return what to do."""
        return self._known[1]

    @property
    def _known(self) -> tuple[str, str]:
        known = _CALLS if self.call else _MEANINGS
        return known.get(self.status, ("an error of the connection", _PATH))

    @property
    def said(self) -> str:
        """Return what failed, by NCCL's numbers, and what that means."""
        if self.call:
            return f"{self.call} failed with {self.status}: {self.meaning}"
        return f"status {self.status}, vendor error {self.vendor_err}: {self.meaning}"


def parse_completion(message: bytes) -> Completion | None:
    """Return what a message says of a completion with error, None if it says nothing of one."""
    start = _START.search(message)
    if start is None:
        return _parse_modify(message)
    rest = message[start.end() : start.end() + 1000].partition(b"\n")[0]
    vendor = _VENDOR.search(rest)
    return Completion(
        hca=_text(_HCA.search(rest)),
        local_gid=_text(_LOCAL.search(rest)),
        remote_gid=_text(_REMOTE.search(rest)),
        peer=(start[1] or b"").decode(errors="replace"),
        status=int(start[3]),
        vendor_err=int(vendor[1]) if vendor else 0,
        request=_text(_REQUEST.search(rest)),
    )


def _parse_modify(message: bytes) -> Completion | None:
    found = _MODIFY.search(message)
    if found is None:
        return None
    number, words, hca = found.groups()
    names = {name: errno for errno, (name, _) in _CALLS.items()}
    return Completion(
        hca=(hca or b"").decode(),
        local_gid=_text(_LOCAL_GID.search(message)),
        remote_gid=_text(_REMOTE_GID.search(message)),
        peer="",
        status=int(number) if number else names.get(words.decode().strip(), 0),
        vendor_err=0,
        request="",
        call="ibv_modify_qp",
    )


def find_completions(
    text: str, host: str = "", rank: int | None = None
) -> Iterator[CompletionError]:
    """Yield the completions with error in a text, such as torch's `Last error:`, each once.

    Args:
        text: what a rank wrote, with or without NCCL's prefix.
        host: the rank's host, if the caller knows it.
        rank: the rank, if the caller knows it.

    """
    seen = set()
    for line in text.splitlines():
        found = parse_completion(line.encode(errors="replace"))
        if found is not None and found not in seen:
            seen.add(found)
            yield make_error(host, rank, found)


def make_error(host: str, rank: int | None, found: Completion) -> CompletionError:
    """Return a completion with error as that of a rank."""
    return CompletionError(host, rank, *found)


def _text(found: re.Match[bytes] | None) -> str:
    return found[1].decode(errors="replace") if found else ""
