"""How the findings of a subnet are made, placed on a site, and named in results."""

from dataclasses import replace

from rdmaprov.finding.finding import Finding


def wrong(kind: str, name: str, port: int | None, text: str, **values: float) -> Finding:
    """Return what is wrong at a named node, switch or file; `port` is None where it is no port's.

    Raises:
        KeyError: no kind of findings has that id.
    """
    return Finding(kind, text, part=name, port=port, values=values)


def unknown(name: str, text: str) -> Finding:
    """Return what could not be verified."""
    return Finding("subnet.unread", text, part=name, proven=False)


def at(found: Finding, node: str, rail: int | None = None) -> Finding:
    """Return a finding with the site's node, empty for none, and the rail of that node."""
    return replace(found, node=node, rail=rail, nodes=(), level="")


def word(found: Finding) -> str:
    """Return the `kind` that results have had from the first, such as `credit loop`."""
    if not found.proven:
        return "not verified"
    if found.kind == "subnet.node":
        return "missing"
    return found.kind.removeprefix("subnet.").replace("-", " ")


def level(found: Finding) -> str:
    """Return the `level` that results have had from the first."""
    return "wrong" if found.proven else "unknown"


def where(found: Finding) -> str:
    """Return the node with its rail, as a line begins; empty if it is no node's."""
    return found.node if found.rail is None else f"{found.node} rail {found.rail}"
