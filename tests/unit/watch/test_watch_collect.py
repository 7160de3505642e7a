"""Nodes that are asked each second: those that answer, hang, die, come back, and Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.watched import MadeUpLink, MadeUpWatch

from rdmaprov.errors import UsageError
from rdmaprov.probe.errors import NoAnswer, NodeUnreachable
from rdmaprov.watch import collect
from rdmaprov.watch.collect import Collector
from rdmaprov.watch.node_account import NodeAccount

SHAPE = FleetShape(2, gpus=4, rails=4, per_leaf=2)


class Fleet:
    """Made-up nodes, for which a second passes each time that one is asked again."""

    def __init__(self) -> None:
        self.watch = MadeUpWatch(site_nodes(SHAPE))
        self.accounts = {node.name: NodeAccount(node) for node in self.watch.nodes}
        self.connects: list[str] = []
        self.refused: set[str] = set()
        self.collector: Collector | None = None

    async def connect(self, name):
        self.connects.append(name)
        if name in self.refused:
            raise NodeUnreachable(f"{name}: ssh rejects the user", "Try: ssh")
        return MadeUpLink(self.watch, SHAPE.names.index(name))

    def run(self, on_look=lambda _now: None, seconds=1.0):
        self.collector = Collector(self.accounts, self.connect, on_look)
        self.collector.run(seconds)


@pytest.fixture
def fleet(monkeypatch):
    monkeypatch.setattr(collect, "EVERY_S", 0.01)
    monkeypatch.setattr(collect, "AGAIN_S", 0.01)
    return Fleet()


def stop_when(ready):
    """Return what sends this process a Ctrl-C as soon as something is so."""

    def look(_now):
        if ready():
            os.kill(os.getpid(), signal.SIGINT)

    return look


def test_all_nodes_are_asked_until_the_interrupt_which_is_no_error(fleet):
    nodes = fleet.accounts.values()
    before = signal.getsignal(signal.SIGINT)
    fleet.run(stop_when(lambda: min(each.answers for each in nodes) > 20), 60)
    assert fleet.collector.was_interrupted
    assert fleet.collector.seconds < 50
    assert signal.getsignal(signal.SIGINT) is before
    assert all(each.lost is None for each in nodes)


def test_time_ends_it_too(fleet):
    fleet.run(seconds=0.2)
    assert not fleet.collector.was_interrupted
    assert all(each.answers for each in fleet.accounts.values())


def test_node_that_refuses_is_tried_again_and_costs_no_other(fleet):
    fleet.refused.add("gpu001")
    one, other = fleet.accounts.values()

    def let_in():
        if fleet.connects.count("gpu001") > 2:
            fleet.refused.clear()
        return one.answers > 3

    fleet.run(stop_when(let_in), 60)
    assert one.answers > 3
    assert one.lost is None
    assert other.answers > 3


def test_watch_ends_where_there_is_nobody_to_watch(fleet):
    fleet.refused.update(SHAPE.names)
    fleet.run(seconds=None)
    assert not fleet.collector.was_interrupted
    assert all(each.lost for each in fleet.accounts.values())


def test_connection_that_ends_is_made_again_and_the_gap_is_known(fleet):
    one = fleet.accounts["gpu001"]

    def die_once():
        if one.answers > 3 and not one.gaps:
            fleet.watch.silent.add(0)
        if one.lost is not None:
            fleet.watch.silent.clear()
        return one.gaps and one.lost is None

    fleet.run(stop_when(die_once), 60)
    assert one.gaps
    assert fleet.connects.count("gpu001") >= 2


def test_node_that_hangs_is_given_up_in_time(fleet, monkeypatch):
    monkeypatch.setattr(collect, "OPEN_S", 0.05)
    closed = []

    class Stuck(MadeUpLink):
        def send(self, _commands):
            return [asyncio.get_running_loop().create_future()]

        def close(self):
            closed.append(True)

    async def connect(name):
        number = SHAPE.names.index(name)
        return Stuck(fleet.watch, 0) if number == 0 else MadeUpLink(fleet.watch, number)

    fleet.connect = connect
    one, other = fleet.accounts.values()
    fleet.run(stop_when(lambda: closed and other.answers > 3), 60)
    assert isinstance(one.lost, NodeUnreachable)
    assert "its counters were not read in 0.05 s" in one.lost.message


def test_node_that_says_something_else_is_no_answer(fleet):
    fleet.watch.odd_answers[1] = '{"us": "{{ x }}"}'
    one = fleet.accounts["gpu002"]
    fleet.run(stop_when(lambda: one.lost is not None), 60)
    assert isinstance(one.lost, NoAnswer)
    assert one.lost.message == "gpu002: its answer has a wrong shape"


def test_mistake_of_ours_ends_the_watch_with_its_reason(fleet):
    def break_down(_now):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fleet.run(break_down, 60)


def test_connection_that_said_a_lot_is_renewed_without_a_gap(fleet, monkeypatch):
    monkeypatch.setattr(collect, "RENEW_BYTES", 20_000)
    one = fleet.accounts["gpu001"]
    fleet.run(stop_when(lambda: fleet.connects.count("gpu001") > 2), 60)
    assert one.gaps == []
    assert one.resets == []


def test_more_nodes_than_open_files_are_refused_at_once(fleet, monkeypatch):
    monkeypatch.setattr(collect, "allow_files", lambda _count: 1)
    with pytest.raises(UsageError, match="2 nodes need more open files than allowed: enough for 1"):
        fleet.run()
    assert fleet.connects == []
