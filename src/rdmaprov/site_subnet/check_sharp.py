"""Judge whether switches can reduce (SHARP), where the site wants that.

A switch that can has an adapter of its own, "Mellanox Technologies Aggregation Node", on a port
beyond those of its front panel. Whether an aggregation manager uses it, no tool of
infiniband-diags tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.site_subnet.finding import SubnetFinding
from rdmaprov.site_subnet.plan import SubnetPlan
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.problem import wrong

_WANTED = "which the site wants (fabric_sharp)"


def sharp_findings(plan: SubnetPlan, fabrics: Sequence[SubnetGraph]) -> Iterator[SubnetFinding]:
    """Yield the switches without an aggregation node; one finding if none has any."""
    if not plan.sharp:
        return
    if not any(fabric.aggregating for fabric in fabrics):
        text = f"no switch has an aggregation node for SHARP, {_WANTED}"
        yield SubnetFinding(wrong("sharp", "fabric_sharp", None, text))
        return
    for fabric in fabrics:
        for number in range(len(fabric.switches)):
            if number not in fabric.aggregating:
                text = f"has no aggregation node for SHARP, {_WANTED}"
                yield SubnetFinding(wrong("sharp", fabric.label(number), None, text))
