"""Judge LIDs: each belongs to one port of a subnet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import SubnetGraph
from rdmaprov.subnet.problem import wrong


def identity_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield LIDs that several ports of one connected fabric have, and switches without one."""
    owners: dict[tuple[int, int], list[str]] = defaultdict(list)
    for number, end in enumerate(fabric.switches):
        if end.lid:
            owners[fabric.parts[number], end.lid].append(fabric.label(number))
        else:
            text = "the switch has no LID: no subnet manager configured it"
            yield wrong("subnet.port", fabric.label(number), None, text)
    for hca in fabric.hcas:
        if hca.end.lid:
            owners[fabric.parts[hca.switch], hca.end.lid].append(hca.end.name)
    for (_, lid), names in sorted(owners.items()):
        if len(names) > 1:
            yield wrong(
                "subnet.port", names[0], None, f"LID {lid} belongs to {' and '.join(names[:3])}"
            )
