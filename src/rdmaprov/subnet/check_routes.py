"""Judge the forwarding tables: what does not arrive, and what is uneven."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import Hca, SubnetGraph, TrunkHop
from rdmaprov.subnet.loads import Imbalance, Load
from rdmaprov.subnet.problem import wrong
from rdmaprov.subnet.routes import Lost, Routes
from rdmaprov.words import some

# Our choice, by measurements on ibsim (docs/subnet-judging.md): healthy and degraded fabrics with
# the engines ftree, updn and minhop stay below 1.6; routes without half of the spines have 2.
MOST_EXCESS = 1.75
# The same into a leaf, where healthy fabrics have up to 1.75, as each leaf chooses alone.
MOST_EXCESS_DOWN = 3.0
_MOST_NAMED = 3


def lost_problems(routes: Routes, lost: Lost) -> Iterator[Finding]:
    """Yield switches without routes, routes to ports without a link, and loops."""
    fabric = routes.fabric
    nowhere = _routed_nowhere(lost, len(routes.sources))
    for target, switches in nowhere.items():
        many = f"{len(switches)} of {len(fabric.switches)} switches"
        text = f"LID {target.end.lid} has no route on {many}"
        yield wrong("subnet.routes", target.end.name, target.end.port, text)
    for switch, targets in sorted(lost.no_route.items()):
        rest = [target for target in targets if target not in nowhere]
        if rest:
            text = f"no route to {_named(rest)}"
            yield wrong("subnet.routes", fabric.label(switch), None, text)
    for (switch, port), targets in sorted(lost.dead_port.items()):
        text = f"the routes to {_named(targets)} leave by this port, which has no link"
        yield wrong("subnet.routes", fabric.label(switch), port, text)
    for (switch, port), targets in sorted(lost.astray.items()):
        text = f"the routes to {_named(targets)} leave by this port, which leads to another HCA"
        yield wrong("subnet.routes", fabric.label(switch), port, text)
    for switch, found in sorted(_loops(lost).items()):
        text = f"packets to {_named(found)} go round in a loop"
        yield wrong("subnet.routes", fabric.label(switch), None, text)


def _routed_nowhere(lost: Lost, sources: int) -> dict[Hca, list[int]]:
    """Return the HCAs to which half of the switches with HCAs have no route."""
    without: dict[Hca, list[int]] = defaultdict(list)
    for switch, targets in lost.no_route.items():
        for target in targets:
            without[target].append(switch)
    return {
        target: switches
        for target, switches in without.items()
        if len(switches) * 2 >= sources and len(lost.no_route[switches[0]]) < _MANY
    }


_MANY = 64  # HCAs that one switch has no route to: then the switch is at fault, not they


def _loops(lost: Lost) -> dict[int, list[Hca]]:
    found: dict[int, list[Hca]] = defaultdict(list)
    for target, switch in lost.loops:
        if target not in found[switch][-1:]:
            found[switch].append(target)
    return found


def _named(targets: list[Hca]) -> str:
    """Return the first names, and how many more there are."""
    return some((f"{hca.end.name} (LID {hca.end.lid})" for hca in targets), _MOST_NAMED)


def loop_problems(fabric: SubnetGraph, loops: list[list[TrunkHop]]) -> Iterator[Finding]:
    """Yield each credit loop."""
    for loop in loops:
        way = " → ".join(f"{fabric.label(hop.source)} port {hop.port}" for hop in loop)
        text = (
            f"credit loop of {len(loop)} links: {way} → back; it can stop all traffic for good,"
            " unless the routing engine keeps these routes on different virtual lanes"
        )
        yield wrong(
            "subnet.credit-loop", fabric.label(loop[0].source), loop[0].port, text, links=len(loop)
        )


def balance_problems(
    fabric: SubnetGraph,
    tables: Mapping[int, Imbalance],
    loads: Mapping[str, Load],
    is_explained: bool,
) -> Iterator[Finding]:
    """Yield what routes load too much: one line for each switch above, one for other leaves.

    The destinations of a table must be uneven over its links; one pattern alone can meet on a link
    by chance. The cost is that of the worst ring.

    Args:
        tables: of `Loads.of_tables`.
        is_explained: wrong cables or lost routes were found, which make links downwards uneven.
    """
    uneven = [each for each in tables.values() if each.excess >= MOST_EXCESS]
    by_above: dict[int, list[Imbalance]] = defaultdict(list)
    for each in uneven:
        by_above[each.hop.target].append(each)
    for above, found in sorted(by_above.items()):
        yield _overloaded(fabric, above, found, loads)
    down = loads["all_to_all"].worst_down
    if not uneven and not is_explained and down and down.excess >= MOST_EXCESS_DOWN:
        yield _overloaded(fabric, down.hop.source, [down], loads)


def is_tree(fabric: SubnetGraph) -> bool:
    """Return whether every link leads from one level to the next: else nothing is fair."""
    levels = fabric.levels
    return all(abs(levels[hop.source] - levels[hop.target]) == 1 for hop in fabric.hops)


def _overloaded(
    fabric: SubnetGraph, above: int, found: list[Imbalance], loads: Mapping[str, Load]
) -> Finding:
    worst = max(found, key=lambda each: each.excess)
    hop = worst.hop
    others = f" (so do {len(found) - 1} more switches)" if len(found) > 1 else ""
    text = (
        f"routes are uneven: {fabric.label(hop.source)} port {hop.port} to"
        f" {fabric.label(hop.target)} carries {worst.excess:.1f} times the"
        f" routes that it needs to{others};"
        f" {_share(fabric, above, loads['ringx'])}{cost(loads)}"
    )
    return wrong("subnet.balance", fabric.label(above), None, text, excess=worst.excess)


def _share(fabric: SubnetGraph, above: int, load: Load) -> str:
    """Return the share of the ring's flows that go through one switch, and the fair one."""
    through: Counter[int] = Counter()
    links: Counter[int] = Counter()
    for hop in load.up:
        if fabric.levels[hop.target] == fabric.levels[above]:
            through[hop.target] += load.flows.get(hop.number, 0)
            links[hop.target] += 1
    if not through.total():
        return ""
    share, fair = through[above] / through.total(), links[above] / links.total()
    return f"{share:.0%} of a ring over the leaves goes through this switch, {fair:.0%} is fair; "


def cost(loads: Mapping[str, Load]) -> str:
    """Return the share of bandwidth that a ring all-reduce loses where its flows meet."""
    lost = lost_share(loads)
    return f"it costs an all-reduce up to {lost:.0%} of its bandwidth between leaves"


def lost_share(loads: Mapping[str, Load]) -> float:
    """Return the share of bandwidth that flows on the busiest link lose, 0 to 1.

    A ring is as fast as its slowest hop, which has one part of the link for each of its flows.
    """
    found = (loads["ringx"].worst, loads["ringx"].worst_down)
    return 1 - 1 / max([1.0, *(each.excess for each in found if each)])
