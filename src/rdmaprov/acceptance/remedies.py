"""Remedies that several findings share, and what a node that does not answer amounts to."""

from rdmaprov.finding.finding import Finding
from rdmaprov.probe.errors import NodeError, NodeUnreachable

# What no rank's evidence names, groups of nodes may.
ISOLATE = "To find the node, run: rdmaprov accept SITE --isolate auto (three nodes or more)"


def no_answer(error: NodeError, node: str) -> Finding:
    """Return the finding that a node gave no answer."""
    what = error.message.removeprefix(f"{node}: ")
    no_connection = isinstance(error, NodeUnreachable)
    return Finding(
        "node.unreachable", what, error.hint, node, proven=False, unreachable=no_connection
    )


def first_line(said: str, most: int = 300) -> str:
    """Return the beginning of what a program said, which may be nothing."""
    lines = said.strip().splitlines()
    return lines[0][:most] if lines else "no message"
