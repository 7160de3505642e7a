"""What a site expects of its subnet: the routing engine, partition keys, SHARP jobs."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.subnet_texts import Texts
from tests.unit.subnet.test_site_subnet import planned

from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site
from rdmaprov.site_subnet.engine_log import EngineLog, engine_logs
from rdmaprov.site_subnet.judge_site import judge_site
from rdmaprov.site_subnet.partition_tables import partition_tables, read_tables
from rdmaprov.site_subnet.sharp_job import judge_output, sharp_jobs
from rdmaprov.site_subnet.tool import NOT_FOUND, ToolOutput
from rdmaprov.subnet.problem import level, where, word

TABLE = (Path(__file__).parents[2] / "fixtures/subnet/ibsim/smpquery-pkeys.txt").read_text()
# As smpquery of infiniband-diags 44 says it on ibsim, of a LID that nobody has.
NO_ANSWER = cases(__file__, "no_answer")


class Reader:
    """A host whose smpquery prints a table for each port, but for some of them another one."""

    name = "node001"

    def __init__(self, **others):
        self.others, self.calls = others, []

    def run(self, words, _limit_s):
        shell, _, loop, _, *numbers = words
        self.calls.append((loop, numbers))
        assert shell == "sh"
        text = "".join(
            f"rdmaprov-lid {lid}\n{self.others.get(f'lid{lid}', TABLE)}" for lid in numbers[::2]
        )
        lost = any(other == "" for other in self.others.values())
        return ToolOutput(text, NO_ANSWER if lost else "", 0)


@pytest.fixture
def subnet(tmp_path):
    return Texts(tmp_path).judge()


def judged(subnet, reader, keys=(0xFFFF,), device=""):
    plan = planned()
    plan = replace(plan, rails=tuple(replace(rail, pkeys=keys) for rail in plan.rails))
    site = judge_site(plan, [subnet], tables=partition_tables(plan, {device: subnet}, reader, []))
    return site, [(level(f), where(f), f.what) for f in site.findings]


def lid_of(subnet, name):
    return next(hca.end.lid for hca in subnet.fabric.hcas if hca.end.name == name)


def test_ports_with_the_sites_keys_are_silent_and_each_is_asked_once(subnet):
    reader = Reader()
    site, told = judged(subnet, reader)
    assert (told, site.exit_code) == ([], ExitCode.OK)
    [(loop, numbers)] = reader.calls
    assert "smpquery pkeys" in loop
    assert len(numbers) == 2 * 32
    assert set(numbers[1::2]) == {"1"}


def test_nothing_is_asked_where_the_site_names_no_keys(subnet):
    reader = Reader()
    assert judged(subnet, reader, keys=()) == judged(subnet, Reader(), keys=())
    assert reader.calls == []


def test_device_that_was_read_through_is_named_to_the_tool(subnet):
    reader = Reader()
    judged(subnet, reader, device="mlx5_2")
    assert "smpquery -C mlx5_2 pkeys" in reader.calls[0][0]


def test_port_with_another_membership_is_named(subnet):
    """A limited member reaches full ones alone, so 0x7fff is not 0xffff."""
    lid = lid_of(subnet, "node003 mlx5_1")
    site, told = judged(subnet, Reader(**{f"lid{lid}": TABLE.replace("0xffff", "0x7fff")}))
    assert told == [("wrong", "node003 rail 1", "lacks the partition key 0xffff; it has 0x7fff")]
    assert site.exit_code == ExitCode.FAILED


def test_port_that_does_not_answer_is_not_verified_with_the_tools_reason(subnet):
    lid = lid_of(subnet, "node003 mlx5_1")
    site, told = judged(subnet, Reader(**{f"lid{lid}": ""}))
    ((level, _, text),) = told
    assert level == "unknown"
    assert text.startswith("the partition keys of node003 rail 1: ")
    assert text.endswith("operation pkeys: node info query failed")
    assert site.exit_code == ExitCode.UNKNOWN


@pytest.mark.parametrize("cut", [TABLE[:200], TABLE.replace("64 pkeys", "many keys"), ""])
def test_table_that_is_cut_is_none(cut):
    assert list(read_tables(["rdmaprov-lid 7", *cut.splitlines()])) == []
    after = ["rdmaprov-lid 7", *cut.splitlines(), "rdmaprov-lid 9", *TABLE.splitlines()]
    assert list(read_tables(after)) == [(9, frozenset({0xFFFF}))]


REAL = Path(__file__).parents[2] / "fixtures" / "subnet" / "real"
PASSED = (REAL / "sharp_hello-passed.txt").read_text()
RESERVED = (REAL / "sharp_hello-no-reservation.txt").read_text()
# From the log of a job, whose library says the same: NVIDIA/nccl issue 1219, March 2024.
OF_MANAGER = cases(__file__, "of_manager")
NO_MANAGER = "ERROR Failed to connect to Aggregation Manager\n"


class NodeWithTool:
    """A node whose sharp_hello says, for each device, what it is told to; else that it passed."""

    name = "node001"

    def __init__(self, **outputs):
        self.outputs, self.calls = outputs, []

    def run(self, words, _limit_s):
        self.calls.append(words)
        device = words[2].partition(":")[0] if words[1] == "-d" else "any"
        return self.outputs.get(device, ToolOutput(PASSED, "", 0))


@pytest.fixture
def fat_tree(tmp_path):
    """Return the judged healthy subnet, whose switches all can reduce."""
    found = Texts(tmp_path).judge()
    found.fabric.aggregating = frozenset(range(len(found.fabric.switches)))
    return found


def judged_sharp(fat_tree, node, *, sharp=True):
    plan, log = replace(planned(), sharp=sharp), list[str]()
    site = judge_site(plan, [fat_tree], jobs=sharp_jobs(plan, [fat_tree], node, log))
    return site, [(level(each), where(each), each.what) for each in site.findings], log


@pytest.mark.parametrize(
    ("output", "passed", "why"),
    [
        (ToolOutput(PASSED, "", 0), True, ""),
        (ToolOutput(RESERVED, "", 255), None, "reserved hosts alone"),
        (ToolOutput(OF_MANAGER, "", 1), None, "the port is that of the subnet manager"),
        (ToolOutput("", NO_MANAGER, 255), False, "Failed to connect to Aggregation Manager"),
        (ToolOutput("", "", 3), False, "exit code 3"),
        (ToolOutput("Test Failed.\n", "", 0), None, "does not say that it passed"),
        (ToolOutput(PASSED, "", 1), None, "it ended with 1, and says that it passed"),
        (ToolOutput("", "", NOT_FOUND), None, "not installed"),
        (ToolOutput("", "node001: no answer within 60 s", None), None, "no answer within 60 s"),
        (ToolOutput("", "sharp_hello: ERROR \x1b[2Jfailed", 1), False, "ERROR"),
    ],
)
def test_output_is_judged_by_what_it_proves(output, passed, why):
    found, said = judge_output(output)
    assert found is passed
    assert why in said
    assert "\x1b" not in said


def test_each_rail_of_the_host_is_asked_and_all_pass(fat_tree):
    node = NodeWithTool()
    site, told, log = judged_sharp(fat_tree, node)
    assert told == []
    assert site.exit_code == ExitCode.OK
    assert [words[:3] for words in node.calls] == [
        ("sharp_hello", "-d", "mlx5_0:1"),
        ("sharp_hello", "-d", "mlx5_1:1"),
    ]
    assert log[-1] == "node001: sharp_hello: Test Passed."


def test_nothing_is_asked_where_sharp_is_not_wanted_or_no_switch_can(fat_tree):
    node = NodeWithTool()
    judged_sharp(fat_tree, node, sharp=False)
    fat_tree.fabric.aggregating = frozenset()
    judged_sharp(fat_tree, node)
    assert node.calls == []


def test_rail_without_a_job_is_named(fat_tree):
    site, told, _ = judged_sharp(fat_tree, NodeWithTool(mlx5_1=ToolOutput("", NO_MANAGER, 255)))
    says = "node001 rail 1 gets no SHARP job, which the site wants (fabric_sharp): "
    said = f"sharp_hello on node001: {NO_MANAGER.strip()}"
    assert told == [("wrong", "node001 rail 1", says + said)]
    assert site.exit_code == ExitCode.FAILED


def test_manager_that_gives_no_job_at_all_is_one_finding_of_no_node(fat_tree):
    away = ToolOutput("", NO_MANAGER, 255)
    _, told, _ = judged_sharp(fat_tree, NodeWithTool(mlx5_0=away, mlx5_1=away))
    assert [(level, where) for level, where, _ in told] == [("wrong", "")]


@pytest.mark.parametrize("is_member", [True, False])
def test_what_no_host_tells_is_not_verified(fat_tree, is_member):
    reserved = ToolOutput(RESERVED, "", 255)
    node = NodeWithTool(mlx5_0=reserved, mlx5_1=reserved, any=reserved)
    node.name = "node001" if is_member else "this machine"
    site, told, _ = judged_sharp(fat_tree, node)
    ((level, where, text),) = told
    assert (level, where) == ("unknown", "")
    assert f"sharp_hello on {node.name}" in text
    assert site.exit_code == ExitCode.UNKNOWN
    assert len(node.calls) == (2 if is_member else 1)


def test_one_rail_that_does_not_tell_is_not_hidden_by_the_other(fat_tree):
    _, told, _ = judged_sharp(fat_tree, NodeWithTool(mlx5_0=ToolOutput(OF_MANAGER, "", 1)))
    ((level, _, text),) = told
    assert level == "unknown"
    assert text.startswith("whether a SHARP job is given on node001 rail 0: ")


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


def plan(engine="ftree", managers=("node001", "node002")):
    return replace(planned(), engine=engine, managers=managers)


def judged_engine(texts, wanted, node=None):
    subnet = texts.judge()
    site = judge_site(wanted, [subnet], (), engine_logs(wanted, [subnet], {"node001": node}.get))
    return site, [
        (level(each), each.part, each.what)
        for each in site.findings
        if word(each) == "engine" or each.part == "fabric_routing_engine"
    ]


def test_log_of_the_master_proves_the_engine(texts):
    node = MasterNode(LINE.format("ftree"))
    _, found = judged_engine(texts, plan(), node)
    assert found == []
    assert PATH in node.asked[0][-1]


def test_other_engine_is_wrong(texts):
    """As opensm falls back to minhop where the fabric does not suit the engine."""
    site, found = judged_engine(texts, plan(), MasterNode(LINE.format("minhop")))
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
    _, found = judged_engine(texts, wanted, node)
    assert [each[:2] for each in found] == [("unknown", "fabric_routing_engine")]
    assert found[0][2].endswith(why)


def test_site_that_expects_no_engine_asks_nothing(texts):
    node = MasterNode(LINE.format("minhop"))
    assert judged_engine(texts, plan(engine=""), node)[1] == []
    assert node.asked == []


def valley(switch, lid, port, _description):
    """Lead from leaf-p1-r0 to node009 mlx5_0 (LID 29) by spine-1, a leaf, and spine-2."""
    ways = {"leaf-p1-r0": 9, "spine-1": 3, "leaf-p1-r1": 11}
    return ways.get(switch, port) if lid == 29 else port


@pytest.mark.parametrize(
    ("engine", "says"), cases(__file__, "tables_that_an_engine_does_not_write_are_named")
)
def test_tables_that_an_engine_does_not_write_are_named(texts, engine, says):
    texts.route(valley)
    _, found = judged_engine(texts, plan(engine), MasterNode(LINE.format(engine)))
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
