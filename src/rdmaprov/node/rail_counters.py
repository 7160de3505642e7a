"""The counters of a rail: which there are, and what reads them. Python 3.6."""

import os

from rdmaprov.node.counter_names import DIRECTORIES
from rdmaprov.node.devices import rail_devices, unfit
from rdmaprov.node.kept_counters import ETHTOOL, CounterFile, Ethtool, LinkState

# Read at each tick. A file of counters/ costs the firmware a command, all of hw_counters/ together
# one each 10 ms: show_pma_counter and RDMA_HW_STATS_DEFAULT_LIFESPAN, drivers/infiniband/core.
FAST = {
    "port": ("port_xmit_data", "port_rcv_data", "port_xmit_wait"),
    "hw": (
        "np_cnp_sent",
        "rp_cnp_handled",
        "np_ecn_marked_roce_packets",
        "out_of_sequence",
        "packet_seq_err",
        "local_ack_timeout_err",
        "roce_adp_retrans",
        "sent_pkts",
        "rcvd_pkts",
        "out_of_seq_request",
        "rcvd_seq_err",
        "completer_retry_err",
    ),
}
SLOW = {"port": ("port_xmit_discards", "port_rcv_errors", "symbol_error", "link_downed")}


class RailCounters:
    """The counters of one rail that are there.

    Args:
        described: `netdev`, `pci` and `rdma` as the site has them; some may be empty.
        number: the rail's, which the names of its counters begin with.
        fast: names of files by place (DIRECTORIES); these are in the attribute `fast`.
        slow: likewise.
        packets: what of `ethtool -S` is read instead where RDMA is counted in packets.

    Attributes:
        rdma, netdev: the devices, each empty if there is none.
        unfit: why nothing is read of the rail; empty if it is.
        fast, slow: pairs of a counter's name and what reads it.
        ethtool: reads several at once; None if the device has none.
    """

    def __init__(self, described, number, fast, slow, ethtool=ETHTOOL, root="/", packets=None):
        self.number, self.ethtool = number, None
        self.netdev, self.rdma = rail_devices(root, described)
        self.fast, self.slow = [], []
        self.unfit = unfit(root, self.rdma) if self.rdma else ""
        if self.unfit:
            return
        if self.rdma:
            port = os.path.join(root, "sys/class/infiniband", self.rdma, "ports/1")
            self.fast += self._files(fast, port)
            self.slow += self._files(slow, port)
            self._add("down", LinkState(port + "/state", b"4:"))  # IB_PORT_ACTIVE
        if packets and self._named("hw.sent_pkts") in dict(self.fast):
            ethtool = packets
        if self.netdev:
            self._add_netdev(os.path.join(root, "sys/class/net", self.netdev), ethtool)

    def _add_netdev(self, device, ethtool):
        if self._named("port.port_xmit_data") not in dict(self.fast):
            self.fast += self._files({"netdev": ("tx_bytes", "rx_bytes")}, device)
        self.fast += self._files({"": ("carrier_changes",)}, device)
        if not self.rdma:
            self._add("down", LinkState(device + "/carrier", b"1"))
        try:
            self.ethtool = Ethtool(self.netdev, ethtool)
        except OSError:
            pass

    def _add(self, name, reader):
        self.fast.append((self._named(name), reader))

    def _named(self, name):
        return "{}/{}".format(self.number, name)

    def _files(self, groups, base):
        """Return a counter for each file that is there, with its name."""
        found = []
        for group, wanted in groups.items():
            for name in wanted:
                try:
                    one = CounterFile(os.path.join(base, DIRECTORIES.get(group, group), name))
                except OSError:
                    continue
                if one.count() is None:
                    one.close()
                else:
                    found.append((self._named((group + "." + name).lstrip(".")), one))
        return found

    def ethtool_names(self):
        """Return the names of what ethtool reads, in the order of its counts."""
        names = self.ethtool.names if self.ethtool else ()
        return [self._named("ethtool." + name) for name in names]

    def ethtool_counts(self):
        """Return what ethtool reads, None for what cannot be read."""
        return self.ethtool.counts() if self.ethtool else []

    def close(self):
        """Close all files."""
        for _, one in self.fast + self.slow:
            one.close()
        if self.ethtool:
            self.ethtool.close()
