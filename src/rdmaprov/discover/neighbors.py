"""The switch port of each rail, where a daemon on the node knows it; it is shown and not written.

A site's `leaf` and `switch_port` say where a cable must be. Who writes down where it is agrees with
each cable that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.lldp_daemons import parse_lldpad, parse_lldpd
from rdmaprov.facts.neighbors import LLDPCTL, Neighborhood, of_lldpad, of_lldpd


def neighbor_remarks(facts: Mapping[str, Any], rails: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each port of a rail whose neighbour is known, or odd.

    Args:
        facts: the collector's output.
        rails: those of its devices that are rails.

    """
    said = facts["lldp"]
    if said["error"]:
        yield f"the neighbours of its rails are unknown: {said['error']}"
        return
    try:
        known = _neighborhood(said)
    except CouldNotTell as error:
        yield f"the neighbours of its rails are unknown: {error.why}"
        return
    for rail in rails:
        for port in rail["ports"]:
            try:
                neighbor = known.of(port)
            except CouldNotTell as error:
                yield f"the neighbour of {rail['device']} is unknown: {error.why}"
                continue
            if neighbor is not None:
                look = known.at(port)
                yield f"{rail['device']} is cabled to {neighbor.label} (read: {look})"


def _neighborhood(said: Mapping[str, str]) -> Neighborhood:
    """Return what the daemon told.

    Raises:
        CouldNotTell: it is not what such a daemon prints.

    """
    if said["lldpd"]:
        return of_lldpd(parse_lldpd(_text(said["lldpd"]), LLDPCTL))
    return of_lldpad(parse_lldpad(_text(said["lldpad"])) if said["lldpad"] else {})


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape")
