"""A problem of a subnet, with the node and the rail of the site that it is about."""

from __future__ import annotations

from dataclasses import dataclass

from rdmaprov.subnet.problem import Level, SubnetProblem


@dataclass(frozen=True)
class SubnetFinding:
    """A problem.

    Args:
        problem: of the subnet.
        node: the node of the site; empty if it is no node's.
        rails: the rails of that node.

    """

    problem: SubnetProblem
    node: str = ""
    rails: tuple[int, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Return whether something is wrong, and not only unknown."""
        return self.problem.level is Level.WRONG

    @property
    def where(self) -> str:
        """Return the node with its rails, as a line begins; empty if it is no node's."""
        if not self.node or not self.rails:
            return self.node
        numbers = ", ".join(map(str, self.rails))
        return f"{self.node} rail{'' if len(self.rails) == 1 else 's'} {numbers}"
