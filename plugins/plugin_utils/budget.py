"""What one node may cost the controller in memory: Ansible keeps all that a node prints."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible.errors import AnsibleError

# A survey of eight rails and all roles is less than 1 MiB.
MOST_MIB = 128


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let this process take no more than MOST_MIB from now on, also after the block.

    It is a worker of Ansible's, which lives for one task on one node. Where there is no /proc,
    there is no limit.

    Raises:
        AnsibleError: the node's answer takes more.
    """
    _limit()
    try:
        yield
    except MemoryError:
        raise AnsibleError(f"the node's answer takes more than {MOST_MIB} MiB") from None


def _limit() -> None:
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return
    taken = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
    most = (taken + MOST_MIB * 1024) * 1024
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
