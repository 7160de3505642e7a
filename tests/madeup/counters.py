"""What the ports of a made-up fleet count while it works, as mlx5's counters have it."""

import numpy as np
from tests.madeup.condition import Condition, Floats, Ints
from tests.madeup.network import Flows
from tests.madeup.shape import PACKET_BYTES

# Of losses that no later packet shows; they end a timeout (our choice: one of ten).
_TIMEOUT_SHARE = 0.1
_NAMES = (
    *("sent", "received", "packets_lost", "retransmitted", "timeouts", "wrong_bits"),
    *("wrong_packets", "flaps", "paused"),
)


class Counters:
    """Sums by node and rail since the fleet came up; they never fall."""

    def __init__(self, condition: Condition, chance: np.random.Generator) -> None:
        self._condition, self._chance = condition, chance
        ports = (condition.shape.nodes, condition.shape.rails)
        self._sums = {name: np.zeros(ports) for name in _NAMES}
        self.socket_bytes = np.zeros(condition.shape.nodes)
        self._idle = chance.spawn(1)[0]  # whose draws shift no other's
        self._bits = np.zeros(ports)  # received since time passed

    def move(self, flows: Flows | None, lost: Floats, message_bytes: Floats) -> None:
        """Count what flows moved; `lost` is the share of packets that each flow lost."""
        if flows is None:
            return
        moved = flows.share * message_bytes
        gone = moved / PACKET_BYTES * lost
        rails = self._condition.shape.rails
        outs, intos = flows.source * rails + flows.out, flows.target * rails + flows.into
        self._add("sent", outs, moved + gone * PACKET_BYTES)
        self._add("received", intos, moved)
        seen = self._chance.poisson(np.minimum(gone, 1e12)).astype(float)
        self._add("packets_lost", intos, seen)
        self._add("retransmitted", outs, seen)
        self._add("timeouts", outs, np.round(seen * _TIMEOUT_SHARE))
        self._count_bits(intos, moved)

    def _add(self, name: str, ports: Ints, values: Floats) -> None:
        np.add.at(self._sums[name].reshape(-1), ports, values)

    def _count_bits(self, intos: Ints, moved: Floats) -> None:
        """Count what a port sees of wrong bits: of what it receives, as its link has them."""
        bits = np.zeros_like(self._sums["received"])
        np.add.at(bits.reshape(-1), intos, 8 * moved)
        rate = self._condition.bit_errors
        wrong = self._chance.poisson(np.minimum(bits * rate, 1e15)).astype(float)
        self._sums["wrong_bits"] += wrong
        self._bits += bits
        packets = bits / 8 / PACKET_BYTES * self._condition.loss
        self._sums["wrong_packets"] += self._chance.poisson(np.minimum(packets, 1e15))

    def pass_time(self, seconds: float) -> None:
        """Count what happens without data: flaps, another job's bytes, idle symbols' errors."""
        line = np.where(self._condition.link_up, 8e9 * self._condition.line_gb_s * seconds, 0.0)
        idle = np.maximum(line - self._bits, 0.0) * self._condition.bit_errors
        self._sums["wrong_bits"] += self._idle.poisson(np.minimum(idle, 1e15))
        self._bits[:] = 0.0
        self._sums["flaps"] += self._chance.poisson(self._condition.flaps_per_s * seconds)
        self._sums["sent"] += self._condition.foreign_gb_s * 1e9 * seconds

    def lose_link(self, node: int, rail: int) -> None:
        self._sums["flaps"][node, rail] += 1

    def port(self, node: int, rail: int) -> dict[str, int]:
        """Return one port's counters by where the reader finds them."""
        seen = {name: int(values[node, rail]) for name, values in self._sums.items()}
        if self._condition.liars.get(node) == "healthy":
            # It says of each rail what the best of its rails would.
            best = int(self._sums["sent"][node].max())
            seen = {**dict.fromkeys(seen, 0), "sent": best, "received": best}
        found = {
            "port.port_xmit_data": seen["sent"] // 4,
            "port.port_rcv_data": seen["received"] // 4,
            "port.port_xmit_discards": 0,
            "port.port_rcv_errors": seen["wrong_packets"],
            "port.symbol_error": seen["wrong_bits"],
            "port.link_downed": seen["flaps"],
            "hw.out_of_sequence": seen["packets_lost"],
            "hw.packet_seq_err": seen["retransmitted"] - seen["timeouts"],
            "hw.local_ack_timeout_err": seen["timeouts"],
            "hw.rnr_nak_retry_err": 0,
        }
        return {**found, **self._ethernet(node, rail, seen)}

    def _ethernet(self, node: int, rail: int, seen: dict[str, int]) -> dict[str, int]:
        if self._condition.shape.kind != "roce":
            return {}
        priority = int(self._condition.priority[node, rail])
        if self._condition.liars.get(node) == "healthy":
            priority = 3
        by_priority = {f"ethtool.tx_prio{p}_bytes": 0 for p in range(8)}
        by_priority[f"ethtool.tx_prio{priority}_bytes"] = seen["sent"]
        return {
            "ethtool.tx_bytes_phy": seen["sent"],
            "ethtool.rx_bytes_phy": seen["received"],
            "ethtool.rx_crc_errors_phy": seen["wrong_packets"],
            "ethtool.rx_symbol_err_phy": seen["wrong_bits"],
            "ethtool.link_down_events_phy": seen["flaps"],
            "ethtool.rx_discards_phy": 0,
            "ethtool.tx_discards_phy": 0,
            **by_priority,
        }
