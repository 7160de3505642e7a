"""What a training step needs of the rails, and which share of it waits for them."""

from collections.abc import Iterator
from dataclasses import dataclass

from rdmaprov.bandwidth.efficiency import network_share
from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.sizing.model import BACKWARD, DTYPES, Spread, TrainedModel
from rdmaprov.sizing.traffic import Flow, gigabytes
from rdmaprov.words import quantity

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


def need_head(model: TrainedModel, need: StepNeed) -> str:
    """Return what is trained, on what, and how long a step computes."""
    spread = need.spread
    what = f"{_number(model.parameters)} parameters in {model.short_dtype}"
    parts = f"{spread.data:,} replicas × {spread.tensor} (tensor) × {spread.pipeline} (pipeline)"
    return (
        f"{what} on {quantity(spread.gpus, 'GPU')}: {parts}, a step computes {need.seconds:.4g} s"
    )


def need_rows(model: TrainedModel, need: StepNeed) -> Iterator[str]:
    """Yield a step's need, each number with its formula."""
    formula = f"{_number(model.parameters)} × {DTYPES[model.dtype]} bytes"
    yield f"gradients: {gigabytes(model.gradient_bytes)} = {formula}"
    for flow in need.flows:
        yield f"{flow.what} sent: {gigabytes(flow.gpu_bytes)} a GPU and step = {flow.formula}"
    own = f"{gigabytes(need.gpu_bytes)} ÷ {need.seconds:.4g} s"
    yield f"per GPU: {format_gb_s(need.gpu_gb_s)} = {own}"
    yield from _rail_rows(need)
    yield from _exposed_rows(need)


def _rail_rows(need: StepNeed) -> Iterator[str]:
    spread = need.spread
    node = sum(flow.node_bytes for flow in need.flows)
    formula = (
        f"{gigabytes(node)} a node × 8 bits ÷ "
        f"{quantity(spread.rails, 'rail')} ÷ {need.seconds:.4g} s"
    )
    yield f"per rail: {need.rail_gbps:.4g} Gb/s = {formula}"
    if spread.gpus_per_node == 1 and spread.gpus > 1:
        yield (
            "  as if each GPU were a node. Where GPUs share NVLink, a ring leaves each node once: "
            "pass --gpus-per-node and --rails"
        )


def _exposed_rows(need: StepNeed) -> Iterator[str]:
    carried = f"{need.link_gbps * need.network_share:.4g} Gb/s"
    formula = (
        f"{need.link_gbps:g} Gb/s × "
        f"{format_percent(need.network_share)}, what a healthy fleet of this size uses by a ring"
    )
    yield f"a rail carries {carried} = {formula}"
    hides = "backward pass: 4 of 6 operations" if need.spread.strategy == "ddp" else "step"
    formula = (
        f"waits ÷ (computes + waits); {need.hidden_s:.4g} s of communication can overlap ({hides})"
    )
    yield f"exposed share of a step = {formula}"
    for ratio in OVERSUBSCRIPTIONS:
        shares = (
            f"{format_percent(need.exposed_share(ratio))} exposed, "
            f"{format_percent(need.share_without_overlap(ratio))} without overlap"
        )
        busy = f"rails are busy {need.communication_s(ratio):.3g} s"
        yield f"  {ratio}:1  {shares}: {busy}"


def _number(count: float) -> str:
    """Return a large number as a user types it, such as `7e9`."""
    return f"{count:.4g}".replace("e+0", "e").replace("e+", "e")
