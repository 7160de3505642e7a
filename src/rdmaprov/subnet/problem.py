"""One thing that is wrong with a subnet, or that could not be verified."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a problem counts in the verdict."""

    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SubnetProblem:
    """A problem at a named node, switch or file; `port` is null where it is none of one port's."""

    level: Level
    name: str
    port: int | None
    text: str
    kind: str


def wrong(kind: str, name: str, port: int | None, text: str) -> SubnetProblem:
    """Return a problem that makes the subnet wrong."""
    return SubnetProblem(Level.WRONG, name, port, text, kind)


def unknown(name: str, text: str) -> SubnetProblem:
    """Return what could not be verified."""
    return SubnetProblem(Level.UNKNOWN, name, None, text, "not verified")
