"""What a training step needs of the rails, and which share of it waits for them."""

from __future__ import annotations

from dataclasses import dataclass

from rdmaprov.bandwidth.efficiency import network_share
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.sizing.model import BACKWARD, Spread
from rdmaprov.sizing.traffic import Flow

OVERSUBSCRIPTIONS = (1, 2, 4)


@dataclass(frozen=True)
class StepNeed:
    """A step by what it sends.

    Args:
        link_gbps: line rate of a rail, in Gb/s.
    """

    flows: tuple[Flow, ...]
    spread: Spread
    seconds: float
    link_gbps: float

    @property
    def gpu_bytes(self) -> float:
        """Return what each GPU sends in a step, in bytes."""
        return sum(flow.gpu_bytes for flow in self.flows)

    @property
    def gpu_gb_s(self) -> float:
        """Return what each GPU must send to be done within the step, in GB/s."""
        return self.gpu_bytes / self.seconds / 1e9

    @property
    def rail_gbps(self) -> float:
        """Return what each rail must send to be done within the step, in Gb/s."""
        return self._rail_bytes(self.flows) * 8 / self.seconds / 1e9

    @property
    def network_share(self) -> float:
        """Return which share of its rails a healthy fleet of this size uses, by a ring."""
        nodes = max(self.spread.gpus // self.spread.gpus_per_node, 1)
        fabric = Fabric(nodes, self.spread.gpus_per_node, self.spread.rails, self.link_gbps)
        return network_share(fabric, "ring")

    @property
    def hidden_s(self) -> float:
        """Return the computation that communication can hide behind, in seconds.

        DDP reduces gradients while the backward pass makes the next ones; FSDP gathers in both.
        """
        return self.seconds * (BACKWARD if self.spread.strategy == "ddp" else 1.0)

    def communication_s(self, oversubscription: float) -> float:
        """Return how long the rails are busy in a step, in seconds."""
        return self._rail_bytes(self.flows) / self._rail_rate(oversubscription)

    def exposed_s(self, oversubscription: float) -> float:
        """Return how long a step waits for the rails, in seconds."""
        rate = self._rail_rate(oversubscription)
        waiting = [flow for flow in self.flows if not flow.hides]
        hiding = [flow for flow in self.flows if flow.hides]
        busy = self._rail_bytes(hiding) / rate
        last = sum(self._rail_bytes([flow]) * flow.last_share for flow in hiding) / rate
        return self._rail_bytes(waiting) / rate + max(busy - self.hidden_s, last)

    def exposed_share(self, oversubscription: float) -> float:
        """Return which share of a step waits for the rails, with overlap."""
        waits = self.exposed_s(oversubscription)
        return waits / (self.seconds + waits)

    def share_without_overlap(self, oversubscription: float) -> float:
        """Return which share of a step waits for the rails if nothing overlaps."""
        waits = self.communication_s(oversubscription)
        return waits / (self.seconds + waits)

    def _rail_bytes(self, flows: tuple[Flow, ...] | list[Flow]) -> float:
        return sum(flow.node_bytes for flow in flows) / self.spread.rails

    def _rail_rate(self, oversubscription: float) -> float:
        """Return what a rail carries of a healthy fleet, in bytes per second."""
        return self.link_gbps / 8 * 1e9 * self.network_share / oversubscription
