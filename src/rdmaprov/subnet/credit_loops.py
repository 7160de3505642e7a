"""Credit loops: cycles of links that wait for each other's buffers."""

from collections.abc import Iterator

from rdmaprov.subnet.fabric import TrunkHop
from rdmaprov.subnet.routes import Routes


def credit_loops(routes: Routes) -> list[list[TrunkHop]]:
    """Return the shortest cycle of each set of links that depend on each other in a ring.

    A link depends on the next link of a route that passes both: its buffer empties only when that
    one has credits (Dally and Seitz, 1987). Only routes that begin at leaves count: others carry
    no data between HCAs.
    """
    after = _dependencies(routes)
    hops = routes.fabric.hops
    return [[hops[number] for number in _shortest(after, group)] for group in _groups(after)]


def _dependencies(routes: Routes) -> dict[int, set[int]]:
    after: dict[int, set[int]] = {}
    by_port = routes.fabric.by_port
    leaves = [leaf for leaf in routes.fabric.leaves() if routes.sources[leaf]]
    for target in routes.targets:
        passed: set[int] = set()
        for leaf in leaves:
            switch, last = leaf, -1
            while switch != target.switch:
                hop = by_port[switch].get(routes.port_to(switch, target.end.lid))
                if hop is None:
                    break
                if last >= 0:
                    after.setdefault(last, set()).add(hop.number)
                if hop.number in passed:
                    break
                passed.add(hop.number)
                switch, last = hop.target, hop.number
    return after


def _groups(after: dict[int, set[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected parts of more than one link (Tarjan, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in after:
        if root in order:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(after.get(root, ())))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = _popped(stack, on_stack, node)
                    if len(part) > 1:
                        yield part
            elif child not in order:
                order[child] = low[child] = len(order)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(after.get(child, ()))))
            elif child in on_stack:
                low[node] = min(low[node], order[child])


def _popped(stack: list[int], on_stack: set[int], last: int) -> list[int]:
    part = []
    while True:
        each = stack.pop()
        on_stack.discard(each)
        part.append(each)
        if each == last:
            return part


def _shortest(after: dict[int, set[int]], group: list[int]) -> list[int]:
    """Return a shortest cycle through the first link of a group."""
    inside = set(group)
    first = min(group)
    before: dict[int, int] = {}
    queue = [first]
    for node in queue:
        for child in sorted(after.get(node, set()) & inside):
            if child == first:
                return _path(before, first, node)
            if child not in before:
                before[child] = node
                queue.append(child)
    return group


def _path(before: dict[int, int], first: int, last: int) -> list[int]:
    path = [last]
    while path[-1] != first:
        path.append(before[path[-1]])
    return path[::-1]
