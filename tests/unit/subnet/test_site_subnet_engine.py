"""The routing engine that a site expects: proven by the master's log, contradicted by tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.helpers import sites
from tests.unit.helpers.subnet_texts import Texts
from tests.unit.subnet.test_site_subnet import planned

from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site
from rdmaprov.site_subnet.engine_log import EngineLog, engine_logs
from rdmaprov.site_subnet.judge_site import judge_site
from rdmaprov.site_subnet.tool import ToolOutput
from rdmaprov.subnet.problem import level, word

PATH = "/var/log/rdmaprov-opensm-rail0/opensm.log"
LINE = "0x02 -> osm_ucast_mgr_process: {} tables configured on all switches"


class MasterNode:
    """A node with a log of opensm."""

    def __init__(self, *lines, rc=0):
        self.name, self.asked = "node001", []
        self.output = ToolOutput("".join(f"{line}\n" for line in lines), "", rc)

    def run(self, words, _limit_s):
        self.asked.append(words)
        return self.output


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)


def plan(engine="ftree", managers=("node001", "node002")):
    return replace(planned(), engine=engine, managers=managers)


def judged(texts, wanted, node=None):
    subnet = texts.judge()
    logs = engine_logs(wanted, [subnet], {"node001": node}.get)
    site = judge_site(wanted, [subnet], (), logs)
    return site, [
        (level(each), each.part, each.what)
        for each in site.findings
        if word(each) == "engine" or each.part == "fabric_routing_engine"
    ]


def test_log_of_the_master_proves_the_engine(texts):
    node = MasterNode(LINE.format("ftree"))
    _, found = judged(texts, plan(), node)
    assert found == []
    assert PATH in node.asked[0][-1]


def test_other_engine_is_wrong(texts):
    """As opensm falls back to minhop where the fabric does not suit the engine."""
    site, found = judged(texts, plan(), MasterNode(LINE.format("minhop")))
    says = "minhop wrote the last tables, expected ftree (fabric_routing_engine)"
    assert found == [("wrong", "node001", says)]
    assert site.exit_code == ExitCode.FAILED


@pytest.mark.parametrize(
    ("wanted", "node", "why"),
    [
        (plan(), MasterNode(rc=0), f"{PATH} on node001 names no engine"),
        (plan(), MasterNode("grep: not there", rc=2), f"{PATH} on node001 names no engine"),
        (plan(), None, "the log is on node001, which is not asked"),
        (plan(managers=()), None, "the master is not the site's (subnet_manager_hosts)"),
        (plan(managers=("node002",)), None, "the master is not the site's (subnet_manager_hosts)"),
    ],
)
def test_engine_that_nothing_tells_is_not_verified(texts, wanted, node, why):
    _, found = judged(texts, wanted, node)
    assert [each[:2] for each in found] == [("unknown", "fabric_routing_engine")]
    assert found[0][2].endswith(why)


def test_site_that_expects_no_engine_asks_nothing(texts):
    node = MasterNode(LINE.format("minhop"))
    assert judged(texts, plan(engine=""), node)[1] == []
    assert node.asked == []


def valley(switch, lid, port, _description):
    """Lead from leaf-p1-r0 to node009 mlx5_0 (LID 29) by spine-1, a leaf, and spine-2."""
    ways = {"leaf-p1-r0": 9, "spine-1": 3, "leaf-p1-r1": 11}
    return ways.get(switch, port) if lid == 29 else port


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("ftree", "to node009 mlx5_0 goes up again after it went down"),
        ("ar_updn", "to node009 mlx5_0 goes up again after it went down"),
        ("minhop", "to node009 mlx5_0 has 4 hops, and 2 would do"),
        ("dfsssp", ""),
        ("file", ""),
    ],
)
def test_tables_that_an_engine_does_not_write_are_named(texts, engine, says):
    texts.route(valley)
    _, found = judged(texts, plan(engine), MasterNode(LINE.format(engine)))
    assert bool(found) == bool(says)
    for state, _, text in found:
        assert state == "wrong"
        assert text.startswith(f"the tables are not those of {engine}")
        assert "leaf-p1-r0 → spine-1 → leaf-p1-r1 → spine-2 → leaf-p2-r0" in text
        assert text.endswith(says)


def test_without_tables_the_engine_is_one_problem_less(texts):
    texts.write("dump_fts.txt", "")
    subnet = texts.judge()
    site = judge_site(plan(), [subnet], (), [EngineLog("minhop")])
    assert not [each for each in site.findings if word(each) == "engine"]


@pytest.mark.parametrize(
    ("line", "engines"), [("", ["ftree", "updn"]), ("fabric_routing_engine: updn\n", ["updn"])]
)
def test_manager_runs_the_engine_of_the_plan(tmp_path, line, engines):
    files = {**sites.GOOD, "host_vars/n1.yml": line}
    node = load_site(sites.write(tmp_path / "site", files)).nodes[0]
    assert node.get("subnet_manager_routing_engines") == engines
