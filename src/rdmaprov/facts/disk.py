"""Room on a node's disks, and who installs packages."""

import re
import shlex

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, output, whole

_LOCKS = (
    "stat -c 'inode %i' /var/lib/dpkg/lock-frontend 2>&1; cat /proc/locks 2>&1; "
    "for p in $(awk '{ print $5 }' /proc/locks 2>&1 | sort -un); do "
    f'echo "process $p $(cat "/proc/$p/comm" 2>&1)"; done; echo {END}'
)


def free_bytes(host: Host, path: str) -> int:
    """Return how much may still be written to a file system, in bytes."""
    command = f"df -P -k {shlex.quote(path)}"
    text = output(host, command)
    lines = text.strip().splitlines()
    found = re.search(r"\s(\d+)\s+(\d+)\s+(-?\d+)\s+(?:\d+%|-)\s+/", lines[-1]) if lines else None
    if found is None or len(lines) != 2:
        raise CouldNotTell(f"{command}: {text[-60:]!r} is not what df prints")
    return int(found[3]) << 10


def dpkg_lock_holder(host: Host) -> str:
    """Return process id and name of who holds dpkg's lock; empty if nobody does."""
    return parse_holder(whole(host.run(_LOCKS).stdout, "locks"))


def parse_holder(body: str) -> str:
    """Return the holder in the lock file's inode, /proc/locks, and the names of processes."""
    inode = re.search(r"(?m)^inode (\d+)$", body)
    if inode is None:
        return ""  # no dpkg
    # 1: POSIX  ADVISORY  WRITE 512 fe:00:1234 0 EOF
    lock = re.search(rf"(?m)^\d+: \S+\s+\S+\s+WRITE (\d+) \S+:{inode[1]} ", body)
    if lock is None:
        return ""
    name = re.search(rf"(?m)^process {lock[1]} (\S+)$", body)
    return f"{lock[1]} ({name[1]})" if name else lock[1]
