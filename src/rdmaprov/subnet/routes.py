"""Follow the forwarding tables: where the packets to each HCA go, and where they get lost."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rdmaprov.subnet.fabric import Hca, SubnetGraph, TrunkHop
from rdmaprov.subnet.model import NO_PORT, ForwardingTable

_BLOCK = 64  # LIDs in one answer of a switch (InfiniBand Architecture 1.5, 14.2.5.10)

FIRST_HIDDEN = 128  # the first port that dump_fts does not print


@dataclass
class Lost:
    """Routes that do not arrive, by the switch at which they end."""

    # for each switch, the HCAs to which it has no route
    no_route: dict[int, list[Hca]] = field(default_factory=dict)
    # for each switch and port without a link, the HCAs that are routed there
    dead_port: dict[tuple[int, int], list[Hca]] = field(default_factory=dict)
    # for each switch and port, the HCAs whose packets it gives to another port
    astray: dict[tuple[int, int], list[Hca]] = field(default_factory=dict)
    # HCAs whose packets go round, with a switch that they pass again
    loops: list[tuple[Hca, int]] = field(default_factory=list)
    pairs: int = 0


class Routes:
    """The ways to each HCA, as the tables say.

    Args:
        tables: by the switch's GUID; a switch without one is passed by no way.
    """

    def __init__(self, fabric: SubnetGraph, tables: Mapping[int, ForwardingTable]) -> None:
        self.fabric = fabric
        self._tables = [
            tables[end.guid].ports if end.guid in tables else None for end in fabric.switches
        ]
        self.without_table = [number for number, table in enumerate(self._tables) if table is None]
        self._hidden = hidden_ports(fabric)
        self._at = {hca.end.lid: hca for hca in fabric.hcas if hca.end.lid}
        self.sources = Counter(hca.switch for hca in fabric.hcas)
        unprinted = _unprinted(tables.values())
        self.targets = [hca for hca in fabric.hcas if hca.end.lid and hca.end.lid not in unprinted]

    def port_to(self, switch: int, lid: int) -> int:
        """Return the port by which a switch sends to a LID; NO_PORT for none."""
        table = self._tables[switch]
        if table is None or lid >= len(table):
            return NO_PORT
        port = table[lid]
        if port == NO_PORT and switch in self._hidden and lid in self._at:
            return self._inferred(switch, self._at[lid])
        return port

    def _inferred(self, switch: int, target: Hca) -> int:
        """Return the hidden port to an HCA's switch, or to the HCA; NO_PORT if there is none.

        Of several cables to the switch, which one is unknown: they share the HCAs by LID.
        """
        if switch == target.switch:
            return target.port if target.port >= FIRST_HIDDEN else NO_PORT
        ports = self._hidden[switch].get(target.switch, ())
        return ports[target.end.lid % len(ports)] if ports else NO_PORT

    def way(self, source: int, target: Hca) -> list[TrunkHop] | None:
        """Return the links from a switch to an HCA; None if they do not lead there."""
        way: list[TrunkHop] = []
        switch = source
        while switch != target.switch:
            hop = self.fabric.by_port[switch].get(self.port_to(switch, target.end.lid))
            if hop is None or len(way) > len(self.fabric.switches):
                return None
            way.append(hop)
            switch = hop.target
        return way

    def lost(self) -> Lost:
        """Return what does not arrive; switches without a table are not blamed."""
        lost = Lost()
        unread = set(self.without_table)
        for target in self.targets:
            arrives = {target.switch}
            self._last_hop(target, lost, unread)
            for source in self.sources:
                if self.fabric.parts[source] == self.fabric.parts[target.switch]:
                    self._follow(source, target, arrives, lost, unread)
        return lost

    def _last_hop(self, target: Hca, lost: Lost, unread: set[int]) -> None:
        port = self.port_to(target.switch, target.end.lid)
        if target.switch in unread or port == target.port:
            return
        lost.pairs += len(self.sources)
        if port == NO_PORT:
            _note(lost.no_route.setdefault(target.switch, []), target)
        else:
            _note(lost.astray.setdefault((target.switch, port), []), target)

    def _follow(
        self, source: int, target: Hca, arrives: set[int], lost: Lost, unread: set[int]
    ) -> None:
        """Follow one way up to a switch from which it is known; note where it ends."""
        passed: list[int] = []
        switch = source
        while switch not in arrives:
            if switch in unread:
                return
            if switch in passed:
                lost.loops.append((target, switch))
                lost.pairs += 1
                return
            passed.append(switch)
            port = self.port_to(switch, target.end.lid)
            hop = self.fabric.by_port[switch].get(port)
            if hop is None:
                lost.pairs += 1
                self._note_end(switch, port, target, lost)
                return
            switch = hop.target
        arrives.update(passed)

    def _note_end(self, switch: int, port: int, target: Hca, lost: Lost) -> None:
        if port == NO_PORT:
            _note(lost.no_route.setdefault(switch, []), target)
        elif (self.fabric.switches[switch].guid, port) in self.fabric.cables or port == 0:
            _note(lost.astray.setdefault((switch, port), []), target)
        else:
            _note(lost.dead_port.setdefault((switch, port), []), target)


def hidden_ports(fabric: SubnetGraph) -> dict[int, dict[int, list[int]]]:
    """Return, for switches with links that dump_fts does not print, these ports by far switch.

    It keeps a port in a signed byte and takes what is above 127 for no port (seen with
    infiniband-diags 44 on ibsim).
    """
    found: dict[int, dict[int, list[int]]] = {
        hca.switch: {} for hca in fabric.hcas if hca.port >= FIRST_HIDDEN
    }
    for hop in fabric.hops:
        if hop.port >= FIRST_HIDDEN:
            found.setdefault(hop.source, {}).setdefault(hop.target, []).append(hop.port)
    return found


def _unprinted(tables: Iterable[ForwardingTable]) -> set[int]:
    """Return the LID that dump_fts leaves out: the last one of all, where that is a multiple of 64.

    It reads tables in blocks of 64 LIDs, and not the block that its last LID begins
    (infiniband-diags, dump_fts.c).
    """
    tops = {table.top for table in tables}
    return {
        top
        for top in tops
        if len(tops) == 1
        and top % _BLOCK == 0
        and all(table.ports[top] == NO_PORT for table in tables)
    }


def _note(found: list[Hca], target: Hca) -> None:
    """Append an HCA once; the ways to one HCA are followed one after the other."""
    if not found or found[-1] is not target:
        found.append(target)
