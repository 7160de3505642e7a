"""Logins at once: an sshd that is asked for too many drops some before it knows whose they are.

That is MaxStartups, by default 10:30:100; behind a jump host all nodes share one [sshd_config(5)].
"""

import os
from collections.abc import Iterator

SSH_FAILED = 255  # ssh's own exit status; others are the remote command's
# Before each further try at most this long: half a minute in all, and a quarter of it at least.
WAITS_S = (0.25, 0.5, 1, 2, 4, 8, 8, 8)
# ssh's words where the other end hung up before the login; after it, the address comes before
# "closed" [OpenSSH, kex.c, packet.c and clientloop.c].
_DROPPED = (
    r"(?:kex|ssh)_exchange_identification: (?:read: )?Connection (?:closed by remote|reset by peer)"
    r"|Connection (?:closed|reset) by \S+ port \d+|Not allowed at this time"
    r"|Exceeded MaxStartups|stdio forwarding failed"
)
# Behind a jump host the outer ssh then says the same; another try changes nothing, and each refused
# key may count towards a lock of the account.
_OTHER = (
    r"Permission denied|Too many authentication failures|Host key verification failed"
    r"|Could not resolve hostname|open failed: |Connection refused|No route to host|timed out"
)


def waits_s() -> Iterator[float]:
    """Yield how long to wait before each further try, not all at the same moment."""
    for most_s in WAITS_S:
        yield most_s * (64 + os.urandom(1)[0] * 3 / 4) / 256


def is_dropped(said: str) -> bool:
    """Return whether ssh, which ended with 255, says that a login was dropped."""
    import re  # a process that mostly needs none starts for each of Ansible's commands

    return re.search(_DROPPED, said) is not None and re.search(_OTHER, said) is None


class Window:
    """How many logins may be under way: half as many once one is dropped.

    They grow by one when as many went well, as TCP's window does [RFC 5681]. Those that were under
    way when one was dropped do not halve it again.

    Args:
        most: at first, and at most.
    """

    def __init__(self, most: int) -> None:
        self.most = self.allowed = max(1, most)
        self.well = self.round = 0

    def grow(self) -> None:
        """Count a login that went well."""
        self.well += 1
        if self.well >= self.allowed:
            self.allowed, self.well = min(self.allowed + 1, self.most), 0

    def shrink(self, began: int) -> None:
        """Count a login that was dropped and began in a round."""
        if began == self.round:
            self.allowed, self.well = max(1, self.allowed // 2), 0
            self.round += 1
