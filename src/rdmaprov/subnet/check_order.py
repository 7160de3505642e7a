"""Find hosts with one HCA on a wrong leaf, by the hosts before and after them in name."""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.fabric import Hca, SubnetGraph, by_host
from rdmaprov.subnet.names import series
from rdmaprov.subnet.problem import wrong

# Our choice: in a fabric that is cabled in the order of names, at most one host in seven that is
# between two of one leaf is on another; at least eight such hosts show the order.
MOST_ASTRAY = 1 / 7
LEAST_BETWEEN = 8


def order_problems(fabric: SubnetGraph) -> Iterator[Finding]:
    """Yield hosts between two of one leaf that are on another, where nearly all follow the order.

    Hosts with several HCAs are judged by those (`check_cables.leaf_problems`).
    """
    hosts = {host: own for host, own in by_host(fabric).items() if len(own) == 1}
    between = list(_between(hosts))
    astray = [(host, hca, leaf) for host, hca, leaf in between if hca.switch != leaf]
    if len(between) < LEAST_BETWEEN or len(astray) > MOST_ASTRAY * len(between):
        return
    for host, hca, leaf in astray:
        text = (
            f"on {fabric.label(hca.switch)} port {hca.port}; the hosts before and after {host}"
            f" are on {fabric.label(leaf)}"
        )
        yield wrong("subnet.cabling", hca.end.name, hca.end.port, text)


def _between(hosts: dict[str, dict[str, Hca]]) -> Iterator[tuple[str, Hca, int]]:
    """Yield the hosts whose neighbours in name are on one leaf, with that leaf."""
    for host, own in sorted(hosts.items()):
        found = series(host)
        if found is None:
            continue
        names, number, width = found
        ((device, hca),) = own.items()
        beside = [hosts.get(names.name(number + step, width), {}).get(device) for step in (-1, 1)]
        leaves = {each.switch for each in beside if each}
        if None not in beside and len(leaves) == 1:
            yield host, hca, leaves.pop()
