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
        """Return the arguments of these names that a command line has, in its order."""
        return tuple(word for word in line.split() if word.partition("=")[0] in self.names)
