"""From where on what a rail counts is a verdict; each with its source, or why we chose it."""

# The part of received packets that is marked. A queue that stands at Kmax marks 1 % in the paper
# of DCQCN (Zhu and others, SIGCOMM 2015, figure 14: Pmax), and all beyond it, so a second with more
# is one in which a queue stood. Marks below it are how DCQCN works.
MARKED_SHARE = 0.01
# Packets of RDMA are counted from bytes, at the largest RoCE MTU: so the share is never too high.
PACKET_BYTES = 4096
# Our choice: 1,000 packets are 4 MB, 0.01 % of what 400 Gb/s carry in a second. Fewer marks, or
# notifications, are those of connections that start, and of a rail that is nearly idle.
LEAST_MARKS_PER_S = 1000
# Our choice: a twentieth of a second is a twentieth of the bandwidth, which an acceptance sees
# (samples.verdicts.LEAST_CHANGE); shorter pauses are how PFC works.
PAUSED_SHARE = 0.05
# From when on a state is a verdict and no burst, our choice: seconds in it within the last ones.
# Of rails that are in it by chance for one second in forty, each second anew, a fleet of 512 nodes
# with 8 rails has a false one in months (binomial); with bursts of others: docs/rates.md. A share
# of all the time would be blind after hours, and name chance in the first minute.
SPELLS_S = ((7.0, 7.0), (10.0, 20.0), (20.0, 100.0))
# A sender is slowed before its receiver's marks are a verdict, and bursts of others mark one node
# of a leaf below its line rate: alone, both need twice as long.
DOUBLED = 2
# While the network holds a rail back for this part of the last seconds, nothing tells who is at
# fault that it carries less; by chance, that is one second of a hundred. Our choice.
HELD_S, HELD_WITHIN_S = 4.0, 20.0
# What a rail carries less than the others of its node: 20 % of a rail is what a job feels as 20 %,
# as a collective ends with its slowest rail. Our choice; equal rails differ by 1 %.
IMBALANCE = 0.2
# Rails are compared over this time, as messages begin and end within a second; our choice.
WINDOW_S = 2.0
# As long as the first of SPELLS_S, or a rail would be accused of what it suffers from.
LEAST_WINDOWS = 4
# Where a rail carries less on most nodes, something that they share slows it, which is a verdict of
# its own, if a later one: nobody is accused alone, and the rail only after this number of windows.
SHARED_WINDOWS = 3 * LEAST_WINDOWS
# Of the usual rail of a node, what most nodes' rail carries where they share no cause; our choice.
SHARED_SHARE = 0.9
# Of the windows in which a node is busy: what is rarer, and over, is a phase of a job. Our choice.
LOW_WINDOWS = 0.1
# A node is busy while its usual rail moves this part of its line rate; our choice.
BUSY_SHARE = 0.01
# From this part of the line rate on, a receiver is full: the rest is headers, gaps and pauses
# between messages. Our choice: RoCE with 4 KiB packets reaches 97 %.
FULL_SHARE = 0.8
# A counter of 32 bits that was beyond three quarters and is now in the first one went around; one
# that fell otherwise was set back. Our choice.
WRAP = 1 << 32
WRAP_FROM, WRAP_TO = 3 * WRAP // 4, WRAP // 4
# Counters of InfiniBand's PortCounters stop at their largest value (InfiniBand Architecture 1.4,
# 16.1.3.5), whose widths are 8 and 16 bits: a counter that stands there counts no more.
STOPS_AT = {
    "port.symbol_error": 0xFFFF,
    "port.port_rcv_errors": 0xFFFF,
    "port.port_xmit_discards": 0xFFFF,
    "port.link_downed": 0xFF,
    "port.link_error_recovery": 0xFF,
    "port.local_link_integrity_errors": 0xF,
    "port.excessive_buffer_overrun_errors": 0xF,
}
# Our choice: a fiftieth of a second at 400 Gb/s; what connections begin with is less.
LEAST_RDMA_BYTES = 10**9
# Soft-RoCE counts packets; a connection begins with some ten. Our choice.
LEAST_RDMA_PACKETS = 100
# Priorities are judged over the whole time and over this one, so that a long watch names a change
# as soon as a short one; two in a row, as counters are not read at the same moment. Our choice.
PRIORITY_WINDOW_S = 3.0
# Errors are allowed by their rate. Over hours these add up, and a new fault would need minutes to
# exceed them: so they are also counted over three of these, which slide. Our choice.
ERROR_WINDOW_S = 3.0
ERROR_WINDOWS = 3
# No port comes near 80 Tb/s, so a node that counts more errs; as in acceptance.samples.track.
MOST_BYTES_PER_S = 10_000 * 10**9
