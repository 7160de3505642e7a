"""A record of a made-up node, clean and anonymous, is judged as the node itself."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host
from tests.validate.runner import FakeHosts, Outcome, judge
from tests.validate.test_faults import MADE_HERE, TABLE, alter, hosts_of

from rdmaprov.inventory import Fleet, load_site
from rdmaprov.probe.backend import ProbeBackend
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.recorded import RecordedProbe
from rdmaprov.record.anonymous import Pseudonyms
from rdmaprov.record.document import (
    NodeRecord,
    new_document,
    parse_record,
    variables_of,
    written_site,
)
from rdmaprov.record.scrub import Scrub
from rdmaprov.runs.masks import Mask

NO_READINGS: dict[str, Any] = {
    "root": "/",
    "user": [0, 0],
    "files": {},
    "directories": {},
    "facts": {},
    "errors": {},
    "commands": [],
}
_BETWEEN = ("test_path.py", "test_uniformity.py")
# Of one RoCE node, not between two, and not of the site, which a record keeps as it was.
ALONE = [
    name
    for name in MADE_HERE
    if not any("peer" in each or "site" in each for each in TABLE[name]["do"])
    and not TABLE[name].get("infiniband")
    and not all(test.startswith(_BETWEEN) for test in TABLE[name]["red"])
]


def answers(known: Mapping[str, CommandResult]) -> dict[str, Answer | str]:
    return {
        text: Answer(
            one.rc,
            *(
                each.decode("utf-8", "surrogateescape")
                for each in (one.stdout_bytes, one.stderr_bytes)
            ),
        )
        for text, one in known.items()
    }


def recorded(fleet: Fleet, known: Mapping[str, CommandResult]) -> NodeRecord:
    node = fleet.nodes[0]
    made = new_document(node.name, "2026-11-23", variables_of(node), NO_READINGS, answers(known))
    clean = Scrub(Mask([])).data(made)
    clean = Pseudonyms(clean, random.Random(7)).data(clean)
    return NodeRecord(parse_record(json.dumps(clean).encode()))


def judge_record(suite: Any, record: NodeRecord) -> list[Outcome]:
    with written_site(record.node, record.variables) as site:
        fleet = load_site(site)
    assert [problem.text() for problem in fleet.problems] == []
    backend = ProbeBackend(RecordedProbe(record.answers), record.node)
    backend.asked = set()
    host = Host(backend)
    backend.set_host(host)
    return judge(suite, fleet, FakeHosts({"gpu1": host, record.node: host}))


def states(outcomes: list[Outcome], name: str) -> dict[tuple[str, str], str]:
    return {(one.test, one.target.replace(name, "NODE")): one.state for one in outcomes}


@pytest.fixture(scope="module")
def learnt(suite, fleet, nodes):
    host = nodes["gpu1"].host()
    judge(suite, replace(fleet, nodes=fleet.nodes[:1]), FakeHosts({"gpu1": host}))
    return {"gpu1": host.backend.known}


@pytest.mark.program
@pytest.mark.parametrize("fault", ["", *ALONE[::9]])
def test_record_is_judged_as_its_node(fault, suite, fleet, nodes, learnt, tmp_path):
    node = nodes["gpu1"].like(tmp_path / "gpu1")
    for each in TABLE[fault]["do"] if fault else ():
        alter({"gpu1": node}, fleet.nodes[0], each)
    one = replace(fleet, nodes=fleet.nodes[:1])
    hosts = hosts_of({"gpu1": node}, learnt)
    outcomes = judge(suite, one, hosts)
    live = states(outcomes, "gpu1")
    known = hosts["gpu1"].backend.known
    asked = frozenset[str]().union(*(each.asked for each in outcomes))
    record = recorded(one, {text: known[text] for text in known if text in asked})
    assert states(judge_record(suite, record), record.node) == live
    assert ("failed" in live.values() or "error" in live.values()) == bool(fault)
    assert "198.18.0." not in json.dumps(record.document)
