"""Counters of a network or RDMA device that are read again and again, cheaply. Python 3.6."""

import array
import fcntl
import os
import re
import socket
import struct

# Of `ethtool -S`: what mlx5 counts at its port (Documentation/networking/device_drivers/ethernet/
# mellanox/mlx5/counters.rst). The driver asks the firmware many times for one answer.
ETHTOOL = re.compile(
    r"[rt]x_bytes_phy|[rt]x_(prio\d|global)_pause(_duration)?|[rt]x_discards_phy|rx_prio\d_discards"
    r"|tx_pause_storm_\w+_events|outbound_pci_stalled_\w+_events|link_down_events_phy"
    r"|rx_pcs_symbol_err_phy|rx_out_of_buffer"
)
MOST_STATS = 20000
SIOCETHTOOL, GSTRINGS, GSTATS, GSSET_INFO = 0x8946, 0x1B, 0x1D, 0x37  # linux/ethtool.h
SET_STATS, STRING = 1, 32


class CounterFile:
    """A counter in a file that stays open; sysfs prints it anew when it is read from its start."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)

    def count(self):
        """Return what it counts now, None if it cannot be read."""
        try:
            return int(os.pread(self.file, 64, 0))
        except (OSError, ValueError):
            return None

    def close(self):
        """Close the file."""
        os.close(self.file)


class LinkState:
    """The reads at which a port had no link, counted."""

    def __init__(self, path, up):
        self.path, self.up, self.downs, self.file = path, up, 0, None

    def count(self):
        """Return them. A device that is gone or set down cannot be read, and has no link."""
        try:
            if self.file is None:
                self.file = os.open(self.path, os.O_RDONLY)
            self.downs += not os.pread(self.file, 64, 0).startswith(self.up)
        except OSError:
            self.downs += 1
            self.close()  # a device that comes back is another one
        return self.downs

    def close(self):
        """Close the file; it is opened again when it is read."""
        if self.file is not None:
            os.close(self.file)
        self.file = None


class Ethtool:
    """What `ethtool -S` has of a network device, asked of the kernel without a process.

    Args:
        wanted: a pattern of the names that are kept.
    """

    def __init__(self, netdev, wanted=ETHTOOL):
        self.netdev = netdev.encode()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.size = self.number_of_stats()
        except OSError:
            self.close()
            raise
        text = self.ask(struct.pack("=III", GSTRINGS, SET_STATS, self.size), STRING * self.size)
        each = (text[12 + STRING * i : 12 + STRING * (i + 1)] for i in range(self.size))
        found = [name.split(b"\0")[0].decode("ascii", "replace") for name in each]
        self.places = [i for i, name in enumerate(found) if wanted.fullmatch(name)]
        self.names = [found[i] for i in self.places]

    def ask(self, head, more):
        """Return what the kernel writes over a request with room for more bytes behind it."""
        room = array.array("B", head + bytes(more))
        request = struct.pack("16sP16x", self.netdev, room.buffer_info()[0])
        fcntl.ioctl(self.socket.fileno(), SIOCETHTOOL, request)
        return room.tobytes()

    def number_of_stats(self):
        """Return how many there are."""
        answer = self.ask(struct.pack("=IIQ", GSSET_INFO, 0, 1 << SET_STATS), 4)
        has, size = struct.unpack_from("=QI", answer, 8)
        if not has or size > MOST_STATS:
            raise OSError("no statistics")
        return size

    def counts(self):
        """Return the counts in the order of `names`."""
        try:
            data = self.ask(struct.pack("=II", GSTATS, self.size), 8 * self.size)
            return [struct.unpack_from("=Q", data, 8 + 8 * i)[0] for i in self.places]
        except OSError:
            return [None] * len(self.places)

    def close(self):
        """Close the socket."""
        self.socket.close()
