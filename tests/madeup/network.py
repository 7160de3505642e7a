"""How long data takes between nodes that send at the same time: the share each resource gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tests.madeup.condition import LOSSLESS_PRIORITY, Condition, Floats, Ints

# A lost packet stops a queue pair for this long, on the average of losses that the next packet
# shows (one round trip, and all in flight again) and of last ones that only a timeout shows. Our
# choice, so that a loss of 1e-3 leaves a quarter of 400G and 1e-2 next to nothing: go-back-N falls
# to about zero above 1 % (Error Recovery of RDMA Packets in Data Center Networks); at 1e-3 the slow
# flows of RDMA take 66 times as long (Joshi et al., SIGCOMM 2023, of what LinkGuardian saves).
RECOVERY_S = 246e-6
# Without PFC, a port that two others send to at once drops 1e-3 of the packets, and one that
# nothing else uses 2e-5 (bursts of a sender's own queue pairs). Our choice: nccl#378 says
# `0.x GB/s` of a fleet with drops, and names no rate.
INCAST_LOSS, BURST_LOSS = 1e-3, 2e-5
# NCCL's buffer of one channel, NCCL_BUFFSIZE: what can be on its way before the proxy acts again
# (4 MiB, NCCL's documentation of environment variables), and its channels for each rail.
BUFFER_BYTES = 4 << 20
CHANNELS_PER_RAIL = 2
# What the ring of one pair of ports leaves in a NIC at most: RoCE v2 has 86 B of headers and gaps
# for each 4096 B; part of the fleet's efficiency.


@dataclass(frozen=True)
class Flows:
    """Data between nodes, all at once; each an array with one value for each flow."""

    source: Ints  # node that sends
    target: Ints  # node that receives
    out: Ints  # the rail that it leaves by
    into: Ints  # the rail that it arrives by
    share: Floats  # bytes for each byte of the collective's message
    group: Ints  # the number of the group that it belongs to

    @classmethod
    def joined(cls, parts: list[Flows]) -> Flows:
        names = ("source", "target", "out", "into", "share", "group")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def size(self) -> int:
        return len(self.source)


def times_per_byte(condition: Condition, flows: Flows) -> tuple[Floats, Floats]:
    """Return seconds for each byte of the message, and the share of lost packets, of each flow.

    What several flows use takes the time of all of them; a flow is as slow as the slowest part of
    its way. That is max-min fair for groups that begin together and move alike.
    """
    shape = condition.shape
    outs, intos = flows.source * shape.rails + flows.out, flows.target * shape.rails + flows.into
    ports = shape.nodes * shape.rails
    line = np.maximum(condition.line_gb_s - condition.foreign_gb_s, 1e-3).ravel()
    rate = np.minimum(line, condition.slot_gb_s.ravel()) * condition.efficiency
    sent = np.bincount(outs, flows.share, ports) / rate
    # What arrives is written to memory; what leaves is read, and takes the other way of the slot.
    written = condition.slot_gb_s * condition.write_share[:, None]
    into_rate = np.minimum(line, written.ravel()) * condition.efficiency
    received = np.bincount(intos, flows.share, ports) / into_rate
    slowest = np.maximum(sent[outs], received[intos])
    slowest = np.maximum(slowest, _host_times(condition, flows, outs, intos))
    above = _spine_times(condition, flows)
    slowest = np.maximum(slowest, above)
    slowest = np.maximum(slowest, _proxy_times(condition, flows))
    slowest /= _path_shares(condition, flows)
    lost = _losses(condition, flows, intos, above)
    return slowest * 1e-9 * (1 + lost * RECOVERY_S / (4096 / (shape.line_gb_s * 1e9))), lost


def _host_times(condition: Condition, flows: Flows, outs: Ints, intos: Ints) -> Floats:
    """Return the time in the memory of CPUs, for ports whose data goes through it."""
    via = condition.via_host.ravel()
    nodes = condition.shape.nodes
    used = np.bincount(flows.source, flows.share * via[outs], nodes)
    # Both ways share the memory; a copy in is as long as a copy out, and they overlap.
    used = np.maximum(used, np.bincount(flows.target, flows.share * via[intos], nodes))
    times = used / condition.host_gb_s
    found: Floats = np.maximum(times[flows.source] * via[outs], times[flows.target] * via[intos])
    return found


def _spine_times(condition: Condition, flows: Flows) -> Floats:
    switches = len(condition.uplink_gb_s)
    up = condition.switch_of[flows.source, flows.out]
    down = condition.switch_of[flows.target, flows.into]
    times = np.zeros(flows.size)
    crosses = np.flatnonzero(up != down)
    if not len(crosses):
        return times
    up, down, share = up[crosses], down[crosses], flows.share[crosses]
    spread = condition.adaptive[up]
    whole = condition.uplink_gb_s.sum(1) * condition.efficiency
    even: tuple[Floats, Floats] = (
        np.bincount(up, share * spread, switches).astype(float),
        np.bincount(down, share * spread, switches).astype(float),
    )
    found = np.maximum((even[0] / whole)[up], (even[1] / whole)[down])
    hashed = np.flatnonzero(~spread)
    if len(hashed):
        found[hashed] = _hashed_times(
            condition, flows, crosses[hashed], (up[hashed], down[hashed], share[hashed]), even
        )
    times[crosses] = found
    return times


def _hashed_times(
    condition: Condition,
    flows: Flows,
    which: Ints,
    ends: tuple[Ints, Ints, Floats],
    even: tuple[Floats, Floats],
) -> Floats:
    """Return the time of flows of which each channel takes one uplink, by a hash of its ends."""
    up, down, share = ends
    switches, uplinks = condition.uplink_gb_s.shape
    rate = np.maximum(condition.uplink_gb_s * condition.efficiency, 1e-6).ravel()
    chosen = []
    for channel in range(CHANNELS_PER_RAIL):
        key = (flows.source[which] * 1_000_003 + flows.target[which]) * 1_000_003
        key += flows.out[which] * 8191 + flows.into[which] * 131 + channel
        chosen.append(_pick_uplinks(condition, up, down, _mixed(key)))
    loads_up = np.repeat(even[0] / uplinks, uplinks)
    loads_down = np.repeat(even[1] / uplinks, uplinks)
    for taken in chosen:
        part = share / CHANNELS_PER_RAIL
        loads_up += np.bincount(up * uplinks + taken, part, switches * uplinks)
        loads_down += np.bincount(down * uplinks + taken, part, switches * uplinks)
    slowest = np.zeros(len(which))
    for taken in chosen:
        slowest = np.maximum(slowest, (loads_up / rate)[up * uplinks + taken])
        slowest = np.maximum(slowest, (loads_down / rate)[down * uplinks + taken])
    return slowest


def _pick_uplinks(condition: Condition, up: Ints, down: Ints, key: Ints) -> Ints:
    """Return the uplink of each flow, of those that both leaves have."""
    uplinks = condition.uplink_gb_s.shape[1]
    there = condition.uplink_gb_s > 0
    if there.all():
        picked: Ints = key % uplinks
        return picked
    both = there[up] & there[down]
    order = np.argsort(~both, axis=1, kind="stable")
    at: Ints = key % np.maximum(1, both.sum(1))
    chosen: Ints = order[np.arange(len(up)), at]
    return chosen


def _mixed(key: Ints) -> Ints:
    """Return numbers as a switch's hash would give them: splitmix64's last steps."""
    bits = key.astype(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Ints = ((bits ^ (bits >> np.uint64(31))) >> np.uint64(33)).astype(np.int64)
    return mixed


def _proxy_times(condition: Condition, flows: Flows) -> Floats:
    """Return the time that slow CPUs need to hand buffers to their NICs."""
    hop = np.maximum(condition.hop_us[flows.source], condition.hop_us[flows.target]) * 1e-6
    times: Floats = flows.share * hop / (CHANNELS_PER_RAIL * BUFFER_BYTES) * 1e9
    return times


def _path_shares(condition: Condition, flows: Flows) -> Floats:
    """Return what single paths between two ports still carry, as a share."""
    shares = np.ones(flows.size)
    for (one, other, rail), share in condition.path_share.items():
        for source, target in ((one, other), (other, one)):
            hit = (flows.source == source) & (flows.target == target) & (flows.out == rail)
            shares[hit] = share
    return shares


def _losses(condition: Condition, flows: Flows, intos: Ints, above: Floats) -> Floats:
    up = condition.switch_of[flows.source, flows.out]
    down = condition.switch_of[flows.target, flows.into]
    lost = condition.loss[flows.source, flows.out] + condition.loss[flows.target, flows.into]
    lost += condition.switch_loss[up] + np.where(up != down, condition.switch_loss[down], 0)
    if condition.shape.kind == "roce":
        # A queue that PFC does not protect drops what meets in it.
        right = condition.priority[flows.source, flows.out] == LOSSLESS_PRIORITY
        safe = right & condition.lossless[down] & condition.lossless[up]
        meets = np.bincount(intos, minlength=condition.shape.nodes * condition.shape.rails)
        queued = (meets[intos] > 1) | (above > 1.5 * flows.share / condition.shape.line_gb_s)
        lost += np.where(safe, 0, np.where(queued, INCAST_LOSS, BURST_LOSS))
    found: Floats = np.minimum(lost, 0.5)
    return found
