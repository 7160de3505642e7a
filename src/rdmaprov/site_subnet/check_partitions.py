"""Judge the partition keys of the rails' ports by the site's: fabric_partition_keys, and pkeys."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.inventory.partitions import shown_key
from rdmaprov.site_subnet.join import Joined
from rdmaprov.site_subnet.partition_tables import PartitionTables
from rdmaprov.subnet.problem import at, unknown, wrong


def partition_findings(joined: Joined, tables: PartitionTables) -> Iterator[Finding]:
    """Yield the ports that lack a key; one finding for those that told none."""
    for rail, keys in tables.keys.items():
        if lacks := [key for key in rail.pkeys if key not in keys]:
            hca = joined.ports[rail].hca
            has = ", ".join(map(shown_key, sorted(keys))) or "none"
            text = f"lacks the partition key {', '.join(map(shown_key, lacks))}; it has {has}"
            problem = wrong("subnet.partition", hca.end.name, hca.end.port, text)
            yield at(problem, rail.node, rail.index)
    if tables.why:
        rail, why = next(iter(tables.why.items()))
        more = f" and {len(tables.why) - 1} more" if len(tables.why) > 1 else ""
        text = f"the partition keys of {rail.label}{more}: {why}"
        yield unknown("fabric_partition_keys", text)
