"""The kernel arguments that one role owns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Owned:
    """What a role wants of the arguments that it alone has."""

    owner: str
    names: tuple[str, ...]
    wanted: tuple[str, ...]

    def of(self, line: str) -> tuple[str, ...]:
        """Return the arguments of these names that a command line has, in its order.

        A name may have a part of the value, such as pci=disable_acs_redir.
        """
        words = line.split()
        names = {*self.names}
        return tuple(w for w in words if names & {w.partition("=")[0], w.rpartition("=")[0]})
