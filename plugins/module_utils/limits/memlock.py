"""How much memory a process may lock, as each program writes it. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..plan import Refused

# Less does not hold even one collective's buffers (facts: ibv_reg_mr fails with ENOMEM).
LEAST_KIB = 1 << 20


@dataclass(frozen=True)
class Memlock:
    """A limit of locked memory; none if `bytes` is None."""

    bytes: int | None

    @property
    def pam(self) -> str:
        """Return it as limits.conf has it: KiB."""
        return "unlimited" if self.bytes is None else str(self.bytes >> 10)

    @property
    def systemd(self) -> str:
        """Return it as a unit has it: bytes, unless a suffix says more."""
        return "infinity" if self.bytes is None else str(self.bytes)

    @property
    def kernel(self) -> str:
        """Return it as /proc and prlimit have it: bytes."""
        return "unlimited" if self.bytes is None else str(self.bytes)


def parse_memlock(text: str) -> Memlock:
    """Return the limit of a site; raise Refused if it is no KiB, or too little for RDMA."""
    if text == "unlimited":
        return Memlock(None)
    if not re.fullmatch(r"\d+", text):
        raise Refused(
            f"limits_memlock: {text!r} is neither unlimited nor a number of KiB; write unlimited"
        )
    if int(text) < LEAST_KIB:
        raise Refused(
            f"limits_memlock: {text} KiB is too little, RDMA locks every buffer that it "
            "registers; write unlimited"
        )
    return Memlock(int(text) << 10)


def of_pam(text: str) -> Memlock:
    """Return a limit that limits.conf has; man limits.conf.5 lists its words for none."""
    if text in ("unlimited", "infinity", "-1"):
        return Memlock(None)
    return Memlock(int(text) << 10 if text.isdigit() else 0)
