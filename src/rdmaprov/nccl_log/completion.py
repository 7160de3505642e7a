"""NCCL's words about a path that fails, which name the rail and both of its ends.

A path fails in a completion with error, or before: `ibv_modify_qp` cannot connect it.

The forms are those of `ncclIbTest` and its like (src/transport/net_ib.cc, since 2.29
src/transport/net_ib/p2p.cc, gin.cc and p2p_resiliency.cc) and of src/misc/ibvwrap.cc, read at the
tags v2.8.4-1 to v2.30.7-1. The plugin of
nccl-rdma-sharp-plugins (src/ib_plugin.c) writes the same. GIDs are there on Ethernet alone, the HCA
since 2.22.
"""

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

_FLUSHED = 5
_START = re.compile(
    rb"NET/IB\w*(?:/GIN)? ?: ?(?:\w{1,60}: ?)?Got completion "
    rb"(?:from peer (?:([^\s<>]{1,64})(?:<(\d{1,5})>)? )?)?"
    rb"with (?:error |status=)(?:[\w ]{1,40}\(|\(devIndex=\d+, wc->status=\(\w*\))?(\d{1,3})\b"
)
# With "retrying" it is no failure yet. The number is after the words since 2.19, and before them
# since 2.24, with device and GIDs.
_MODIFY = re.compile(
    rb"Call to ibv_modify_qp failed with (?:error )?([\w -]{1,80})"
    rb"(?:, on dev ([\w.-]{1,64}):\d)?(?!.*retrying)"
)
_ERRNO = re.compile(rb"-?\b(\d{1,4})\b")
_LOCAL_GID = re.compile(rb"local GID ([0-9a-fA-F:.]{2,45})(?:[,\s]|$)")
_REMOTE_GID = re.compile(rb"remote GID ([0-9a-fA-F:.]{2,45})(?:[,\s]|$)")
_VENDOR = re.compile(rb"vendor[ _]err[ =](\d{1,10})\b")
_REQUEST = re.compile(rb"(?:vendor err \d{1,10} \(|req_type=)(\w{1,16})")
_LOCAL = re.compile(rb"\blocalGid ([0-9a-fA-F:.]{2,45})(?:\s|$)")
_REMOTE = re.compile(rb"\bremoteGids? ?([0-9a-fA-F:.]{2,45})(?:\s|$)")
_HCA = re.compile(rb" hca ([\w.:-]{1,64})(?:\s|$)")


@dataclass(frozen=True, slots=True, order=True)
class CompletionError:
    """A completion with error, as one end of a connection saw it."""

    host: str  # its host, as in the log; empty if unsaid
    rank: int | None  # its rank in the largest communicator of its log; None if unsaid
    hca: str  # its RDMA device; empty before NCCL 2.22
    local_gid: str  # the GID of that port, as an address; empty on InfiniBand
    remote_gid: str  # the other end's
    peer: str  # address of the other end on the control network; empty before 2.12
    status: int  # the number of `enum ibv_wc_status`, such as 12
    vendor_err: int  # the vendor's number, such as 129
    request: str  # what failed: `Send`, `Recv` or another; empty if unsaid
    # `ibv_modify_qp` if the path could not be connected: `status` is that of errno, 0 if unsaid;
    # empty for a completion
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
        table = statuses()
        known: list[str] = table[self.call or "completion"].get(self.status, table["other"])
        if self.call and known is table["other"] and self.status:
            return os.strerror(self.status), known[1]
        return known[0], known[1]

    @property
    def said(self) -> str:
        """Return what failed, by NCCL's numbers, and what that means."""
        if self.call:
            return f"{self.call} failed with {self.status}: {self.meaning}"
        return f"status {self.status}, vendor error {self.vendor_err}: {self.meaning}"


@cache
def statuses() -> dict[str, Any]:
    """Return what each status means, and what to do, from statuses.yml."""
    import yaml

    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("statuses.yml").read_text())
    return table


def parse_completion(message: bytes) -> CompletionError | None:
    """Return what a message says of a completion with error, None if it says nothing of one.

    The message does not name its owner.
    """
    start = _START.search(message)
    if start is None:
        return _parse_modify(message)
    rest = message[start.end() : start.end() + 1000].partition(b"\n")[0]
    vendor = _VENDOR.search(rest)
    return CompletionError(
        host="",
        rank=None,
        hca=_text(_HCA.search(rest)),
        local_gid=_text(_LOCAL.search(rest)),
        remote_gid=_text(_REMOTE.search(rest)),
        peer=(start[1] or b"").decode(errors="replace"),
        status=int(start[3]),
        vendor_err=int(vendor[1]) if vendor else 0,
        request=_text(_REQUEST.search(rest)),
    )


def _parse_modify(message: bytes) -> CompletionError | None:
    found = _MODIFY.search(message)
    if found is None:
        return None
    words, hca = found.groups()
    number = _ERRNO.search(words)
    names = {os.strerror(each): each for each in errno.errorcode}
    return CompletionError(
        host="",
        rank=None,
        hca=(hca or b"").decode(),
        local_gid=_text(_LOCAL_GID.search(message)),
        remote_gid=_text(_REMOTE_GID.search(message)),
        peer="",
        status=int(number[1]) if number else names.get(words.decode().strip(), 0),
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
            yield replace(found, host=host, rank=rank)


def _text(found: re.Match[bytes] | None) -> str:
    return found[1].decode(errors="replace") if found else ""
