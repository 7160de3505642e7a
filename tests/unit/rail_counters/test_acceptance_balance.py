"""Rails that sent little: of one node, and of the nodes that only follow it."""

from __future__ import annotations

import pytest

from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import RailTraffic

RAILS = 4


def traffic(*idle: int) -> list[RailTraffic]:
    """Return what the rails of nodes counted, each node with one that sent nothing."""
    return [
        RailTraffic(f"n{node}", rail, {"port.port_xmit_data": 0 if rail == none else 10**9})
        for node, none in enumerate(idle)
        for rail in range(RAILS)
    ]


def named(*idle: int) -> set[tuple[str, str, int | None]]:
    return {(each.level, each.node, each.rail) for each in counters.balance(traffic(*idle))}


NO = -1


@pytest.mark.parametrize(
    ("idle", "wanted"),
    [
        ((NO, NO, NO, NO), set()),
        ((NO, 2, NO, NO), {("rail", "n1", 2)}),
        ((3, 2, 3, 3), {("fleet", "", 3), ("rail", "n1", 2)}),
        ((3, 3, 3, 3), {("fleet", "", 3)}),
        ((3, 2, NO, NO), {("rail", "n0", 3), ("rail", "n1", 2)}),
        ((3, 3), {("rail", "n0", 3), ("rail", "n1", 3)}),
    ],
    ids=["all-busy", "one", "others-follow", "all", "two", "fleet-of-two"],
)
def test_idle_rails_are_of_those_that_stand_out(idle, wanted):
    """All ranks use as many channels as the one with the fewest, so others have a rail too many."""
    assert named(*idle) == wanted
