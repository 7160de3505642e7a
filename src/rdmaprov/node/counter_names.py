"""The counters of a rail that say something of it: what each counts, where, and how it is judged.

Pure data, Python 3.6: the programs on nodes have it, too. A counter's name is its place and its own
name there, such as `port.symbol_error`.

Sources: "Understanding mlx5 Linux counters" of NVIDIA; the kernel's Documentation/networking/
device_drivers/ethernet/mellanox/mlx5/counters.rst and drivers/infiniband/hw/mlx5/counters.c;
InfiniBand Architecture 1.4, 16.1.3.5 (PortCounters); Soft-RoCE: sw/rxe/rxe_hw_counters.c.
"""

from collections import namedtuple

# The directory of sysfs, by place: of the RDMA device's port, and of the network device. `ethtool`
# is what `ethtool -S` prints.
DIRECTORIES = {"port": "counters", "hw": "hw_counters", "netdev": "statistics"}

# How a rise is judged. NEVER: any is a fault. ONCE: one may be a cable that was touched. RATE: at
# least one wrong bit behind error correction, or one packet that was dropped here; a link may have
# as many as it may have wrong bits. RESENT: what a sender counts of packets that were lost anywhere
# on the path; where, its peers' counters tell. RETRIES: a connection ended; so may be its peer's
# fault. CONGESTED: reported, as congestion control and adaptive routing did what they are for.
NEVER, ONCE, RATE, RESENT, CONGESTED = "never", "once", "rate", "resent", "congested"
RETRIES = "retries"

# name; judged; what one of it is; the verbs that do not judge it, with the reason.
RailCounter = namedtuple("RailCounter", "name judged means without")

_QUIET = "validate reads a link for seconds, with no traffic of its own"
_SUMS = "the kernel adds it up from counters of ethtool -S, which are read"
_HERE = {"validate": _QUIET}
_OF_KERNEL = {"validate": _SUMS, "watch": _SUMS}

TABLE = (
    # A link that went down breaks its connections: NVIDIA's NVSentinel (NIC Health Monitor, "Link
    # Counter Detection") calls any such event fatal.
    RailCounter("port.link_downed", NEVER, "link-down events", _HERE),
    RailCounter("hw.link_downed", NEVER, "link-down events", _HERE),
    RailCounter("ethtool.link_down_events_phy", NEVER, "link-down events", _HERE),
    # By its definition, it counts when the number of local errors exceeds a threshold.
    RailCounter("port.local_link_integrity_errors", NEVER, "link integrity errors", {}),
    RailCounter("port.link_error_recovery", ONCE, "link recoveries", _HERE),
    RailCounter("port.symbol_error", RATE, "symbol errors", {}),
    RailCounter("ethtool.rx_symbol_err_phy", RATE, "symbol errors", {}),
    # Not corrected by FEC: traffic is lost (counters.rst).
    RailCounter("ethtool.rx_pcs_symbol_err_phy", RATE, "symbol errors", {}),
    RailCounter("ethtool.rx_crc_errors_phy", RATE, "frames with a wrong CRC", {}),
    RailCounter("ethtool.rx_in_range_len_errors_phy", RATE, "frames with a wrong length", {}),
    RailCounter("port.port_rcv_errors", RATE, "packets received with errors", {}),
    RailCounter("port.excessive_buffer_overrun_errors", RATE, "buffer overruns", {}),
    RailCounter("hw.rx_icrc_encapsulated", RATE, "RoCE packets with a wrong ICRC", _HERE),
    RailCounter("port.port_xmit_discards", RATE, "packets discarded on transmit", _HERE),
    RailCounter("ethtool.rx_discards_phy", RATE, "packets discarded on receive (no buffer)", _HERE),
    RailCounter("ethtool.tx_discards_phy", RATE, "packets discarded on transmit", _HERE),
    RailCounter(
        "netdev.rx_errors", RATE, "frames received with errors", {"validate": _SUMS, "watch": _SUMS}
    ),
    RailCounter(
        "netdev.rx_crc_errors", RATE, "frames with a wrong CRC", {"validate": _SUMS, "watch": _SUMS}
    ),
    RailCounter("netdev.tx_errors", RATE, "transmit errors", _OF_KERNEL),
    # NCCL ends then: the packets, or all answers to them, were lost at either end or between.
    RailCounter("hw.retry_exceeded_err", RETRIES, "retry limits exceeded", _HERE),
    RailCounter("hw.packet_seq_err", RESENT, "packets sent again", _HERE),
    RailCounter("hw.rcvd_seq_err", RESENT, "packets sent again", _HERE),
    RailCounter("hw.implied_nak_seq_err", RESENT, "packets sent again", _HERE),
    RailCounter("hw.local_ack_timeout_err", RESENT, "packets sent again", _HERE),
    RailCounter("hw.rnr_nak_retry_err", RESENT, "packets sent again", _HERE),
    RailCounter("hw.roce_adp_retrans", RESENT, "packets sent again", _HERE),
    RailCounter("hw.completer_retry_err", RESENT, "packets sent again", _HERE),
    # Out of order is no fault where routing is adaptive: the HCA places such packets ("Out-of-Order
    # Data Placement" in NVIDIA's MLNX_OFED 5.8 documentation).
    RailCounter("hw.out_of_sequence", CONGESTED, "packets out of order", _HERE),
    RailCounter("hw.out_of_seq_request", CONGESTED, "packets out of order", _HERE),
    RailCounter("hw.np_cnp_sent", CONGESTED, "congestion notifications sent", _HERE),
    RailCounter("hw.rp_cnp_handled", CONGESTED, "congestion notifications received", _HERE),
    RailCounter("hw.np_ecn_marked_roce_packets", CONGESTED, "packets marked by a switch", _HERE),
    RailCounter("ethtool.rx_global_pause", CONGESTED, "pause frames received", _HERE),
    RailCounter("ethtool.tx_global_pause", CONGESTED, "pause frames sent", _HERE),
)

# Wrong symbols of a port, by whichever of its counters a driver has.
SYMBOLS = ("ethtool.rx_pcs_symbol_err_phy", "ethtool.rx_symbol_err_phy", "port.symbol_error")
# Of the same event, each counter of it: never added up.
DOWNS = ("port.link_downed", "hw.link_downed", "ethtool.link_down_events_phy")


def judged(how: str) -> "dict[str, str]":
    """Return the counters that are judged in one of the ways above, with what one of each is."""
    return {each.name: each.means for each in TABLE if each.judged == how}


def names_at(place: str, verb: str) -> "tuple[str, ...]":
    """Return the names, at one place, of the counters by which a verb finds faults."""
    found = (each for each in TABLE if each.judged != CONGESTED and verb not in each.without)
    split = (each.name.split(".") for each in found)
    return tuple(name for where, name in split if where == place)
