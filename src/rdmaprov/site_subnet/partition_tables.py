"""The partition keys that each rail's port has, by smpquery: one call of it for each port."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rdmaprov.finding.finding import Finding
from rdmaprov.inventory.partitions import shown_key
from rdmaprov.site_subnet.hosts import FabricHost
from rdmaprov.site_subnet.join import Joined, join
from rdmaprov.site_subnet.plan import PlannedRail, SubnetPlan
from rdmaprov.site_subnet.tool import last_line
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.problem import at, unknown, wrong

# infiniband-diags, src/smpquery.c, pkey_table: rows of eight keys, then how many there can be.
_ROW = re.compile(r"\s*[0-9]{1,5}:((?: 0x[0-9a-fA-F]{4}){1,8})\s*$")
_END = re.compile(r"[0-9]{1,5} pkeys capacity for this port\s*$")
_LID = re.compile(r"rdmaprov-lid ([0-9]{1,5})$")
# Our choice. A port took 8 ms on ibsim, so a round takes 8 s, and a shell takes that many words.
_AT_ONCE, _LIMIT_S = 1024, 300.0


@dataclass
class PartitionTables:
    """What was read."""

    # of each rail whose port told them, without zeros
    keys: dict[PlannedRail, frozenset[int]] = field(default_factory=dict)
    # for rails whose port did not, what smpquery said
    why: dict[PlannedRail, str] = field(default_factory=dict)


def partition_tables(
    plan: SubnetPlan, subnets: Mapping[str, Assessment], host: FabricHost, log: list[str]
) -> PartitionTables:
    """Return the tables of all rails for which the site names partition keys.

    Args:
        subnets: each judged alone, by the device that it was read through; empty for the tool's
            own choice.
    """
    found = PartitionTables()
    if not any(rail.pkeys for rail in plan.rails):
        return found
    ports = join(plan, [each.fabric for each in subnets.values()]).ports
    for device, subnet in subnets.items():
        rails = {
            port.hca.end.lid: (rail, port.hca.end.port)
            for rail, port in ports.items()
            if rail.pkeys and port.fabric is subnet.fabric
        }
        lids = sorted(rails)
        for start in range(0, len(lids), _AT_ONCE):
            some = {lid: rails[lid] for lid in lids[start : start + _AT_ONCE]}
            _read(host, device, some, found, log)
    return found


def _read(
    host: FabricHost,
    device: str,
    rails: Mapping[int, tuple[PlannedRail, int]],
    found: PartitionTables,
    log: list[str],
) -> None:
    option = f"-C {device} " if device else ""
    loop = (
        'while [ $# -gt 1 ]; do echo "rdmaprov-lid $1";'
        f' smpquery {option}pkeys "$1" "$2" || :; shift 2; done'
    )
    words = [str(number) for lid, (_, port) in rails.items() for number in (lid, port)]
    output = host.run(("sh", "-c", loop, "sh", *words), _LIMIT_S)
    log += [f"{host.name}: smpquery: {line}" for line in output.errors.splitlines()]
    tables = dict(read_tables(output.text.splitlines()))
    why = last_line(output.errors) or "smpquery printed no table"
    for lid, (rail, _) in rails.items():
        if (keys := tables.get(lid)) is None:
            found.why[rail] = why
        else:
            found.keys[rail] = keys


def read_tables(lines: Iterable[str]) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield each LID with its keys; none for a table that is cut."""
    lid, keys = 0, set[int]()
    for line in lines:
        if head := _LID.match(line):
            lid, keys = int(head[1]), set()
        elif row := _ROW.match(line):
            keys |= {int(word, 16) for word in row[1].split()}
        elif _END.match(line) and lid:
            yield lid, frozenset(keys - {0})
            lid = 0


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
