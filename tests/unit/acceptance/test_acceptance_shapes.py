"""What programs on a node answer to accept is of the known shape, or makes that node unknown."""

from __future__ import annotations

import json
import sys

import pytest

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.probe.connection import Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target

ODD: tuple[object, ...] = (None, "\x1b[2J", -1, 1 << 70, float("nan"), [], {}, "\ud800", "x" * 5000)


@pytest.fixture
def here():
    probe = Probe({"n1": Target("n1", "", ("/bin/sh", "-c"), sys.executable, 60)})
    yield probe
    probe.close()


def test_preflight_of_a_stranger_makes_its_node_unknown(here, tmp_path):
    """Each value of a good answer in turn is what none may be, on the way that answers take."""
    rails = [{"netdev": "lo", "pci": ""}]
    check = shapes.preflight(1)
    document = {"verb": "preflight", "python": sys.executable, "rails": rails}
    command = program_command("reader", document, 60)
    good = ask_nodes(here, {"n1": command}, lambda _: check)["n1"]
    assert isinstance(good, dict)
    good["rails"][0]["counters"] = {"netdev.tx_bytes": 1}
    good["others"], good["addresses"] = {"eth0": 1}, {"lo": ["127.0.0.1"]}
    good["runs"] = ["rank 3 of a job"]
    assert check(good) is None
    places = list(leaves(good))
    assert len(places) >= 12
    for place in places:
        for odd in ODD:
            lied = json.loads(json.dumps(good))
            owner = lied
            for key in place[:-1]:
                owner = owner[key]
            owner[place[-1]] = odd
            if {"error", "runs"} & set(place) and odd == "\x1b[2J":
                continue  # what a program said is shown escaped
            (tmp_path / "lie").write_text(json.dumps(lied))
            command = Command(f"cat {tmp_path}/lie", 20)
            found = ask_nodes(here, {"n1": command}, lambda _: check)["n1"]
            assert isinstance(found, NodeError), (place, odd)
            assert str(found).isprintable()


def leaves(value, *place):
    """Yield the place of each value that is no container."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in children:
        if isinstance(each, dict | list):
            yield from leaves(each, *place, key)
        else:
            yield (*place, key)
