"""Whether a process listens, as the kernel shows it. Needs Python 3.6."""

import os

from rdmaprov.node.hunt import read_bytes

LISTEN = b"0A"  # include/net/tcp_states.h


def listeners(table):
    """Return the inodes of the sockets that listen on each TCP port, of a text of /proc/net/tcp."""
    found = {}
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == LISTEN:
            found.setdefault(int(words[1].rpartition(b":")[2], 16), set()).add(words[9])
    return found


def inodes(pid):
    """Return the inodes of a process's sockets; none if it has ended or is another user's."""
    place = "/proc/{}/fd".format(pid)
    found = set()
    try:
        names = os.listdir(place)
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(os.path.join(place, name))
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1].encode())
    return found


def who_listens(wanted):
    """Return which of some processes listen, of pairs of a process and its TCP port.

    It is their own socket: another program may listen on the same port.
    """
    ports = {}
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for port, own in listeners(read_bytes(name)).items():
            ports.setdefault(port, set()).update(own)
    return {pid for pid, port in wanted if ports.get(port) and ports[port] & inodes(pid)}
