"""Rails that sent little: of one node, and of the nodes that only follow it."""

from __future__ import annotations

import pytest

from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import RailTraffic

RAILS = 4
DUE_BYTES = 10**10


def traffic(*idle: int) -> list[RailTraffic]:
    """Return what the rails of nodes counted, each node with one that sent nothing."""
    return [
        RailTraffic(f"n{node}", rail, {"port.port_xmit_data": 0 if rail == none else 10**9})
        for node, none in enumerate(idle)
        for rail in range(RAILS)
    ]


def named(*idle: int) -> set[tuple[str, str, int | None]]:
    found = counters.balance(traffic(*idle), DUE_BYTES)
    return {(each.level, each.node, each.rail) for each in found}


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


def test_what_broadcasts_left_on_unused_rails_makes_none_odd():
    """Seen on two nodes whose NCCL used sockets: rail 1 had "0 % of the mean", of kilobytes."""
    sent = {0: 24_000, 1: 70}
    rails = [RailTraffic("n1", rail, {"netdev.tx_bytes": count}) for rail, count in sent.items()]
    assert list(counters.balance(rails, DUE_BYTES)) == []
    (found,) = counters.volume(rails, DUE_BYTES)
    assert (found.kind, found.node, found.rail) == ("traffic.volume", "n1", None)
