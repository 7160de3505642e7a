"""NCCL's words about a completion with error, which name the rail and both of its ends.

The forms are those of `ncclIbTest` and its like (src/transport/net_ib.cc, since 2.29
src/transport/net_ib/p2p.cc and gin.cc), read at the tags v2.8.4-1 to v2.30.7-1. The plugin of
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
_MEANINGS = {
    1: "local length error",
    2: "local operation error in the queue pair",
    4: "local protection error: the HCA may not use the memory",
    _FLUSHED: "flushed after an earlier error",
    9: "the peer refused the request",
    10: "the peer's memory may not be used",
    11: "the peer could not perform the operation",
    12: "no answer from the peer until the retries were used up",
    13: "the peer had no receive posted until the retries were used up",
}

_START = re.compile(
    rb"NET/IB\w*(?:/GIN)? ?: ?Got completion (?:from peer (?:([^\s<>]{1,64})(?:<(\d{1,5})>)? )?)?"
    rb"with (?:error |status=)(?:[\w ]{1,40}\()?(\d{1,3})\b"
)
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

    @property
    def is_flush(self) -> bool:
        """Return whether it only follows another error of the same connection."""
        return self.status == _FLUSHED

    @property
    def meaning(self) -> str:
        """Return what the status means."""
        return _MEANINGS.get(self.status, "an error of the connection")


def parse_completion(message: bytes) -> Completion | None:
    """Return what a message says of a completion with error, None if it says nothing of one."""
    start = _START.search(message)
    if start is None:
        return None
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
