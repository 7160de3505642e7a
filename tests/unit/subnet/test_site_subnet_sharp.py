"""Whether a SHARP job is given, as sharp_hello says it on real fabrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.helpers.subnet_texts import Texts
from tests.unit.subnet.test_site_subnet import planned

from rdmaprov.exit_codes import ExitCode
from rdmaprov.site_subnet.judge_site import judge_site
from rdmaprov.site_subnet.sharp_job import judge_output, sharp_jobs
from rdmaprov.site_subnet.tool import NOT_FOUND, ToolOutput
from rdmaprov.subnet.problem import level, where

REAL = Path(__file__).parents[2] / "fixtures" / "subnet" / "real"
PASSED = (REAL / "sharp_hello-passed.txt").read_text()
RESERVED = (REAL / "sharp_hello-no-reservation.txt").read_text()
# From the log of a job, whose library says the same: NVIDIA/nccl issue 1219, March 2024.
OF_MANAGER = (
    "[C25L19:1:28576 unique id 1201360626793454896] ERROR collect_ports_data:"
    " device mlx5_0 port 1 is not valid (port is used by SM)\n"
)
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
def subnet(tmp_path):
    """Return the judged healthy subnet, whose switches all can reduce."""
    found = Texts(tmp_path).judge()
    found.fabric.aggregating = frozenset(range(len(found.fabric.switches)))
    return found


def judged(subnet, node, *, sharp=True):
    plan, log = replace(planned(), sharp=sharp), list[str]()
    site = judge_site(plan, [subnet], jobs=sharp_jobs(plan, [subnet], node, log))
    told = [(level(each), where(each), each.what) for each in site.findings]
    return site, told, log


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


def test_each_rail_of_the_host_is_asked_and_all_pass(subnet):
    node = NodeWithTool()
    site, told, log = judged(subnet, node)
    assert told == []
    assert site.exit_code == ExitCode.OK
    assert [words[:3] for words in node.calls] == [
        ("sharp_hello", "-d", "mlx5_0:1"),
        ("sharp_hello", "-d", "mlx5_1:1"),
    ]
    assert log[-1] == "node001: sharp_hello: Test Passed."


def test_nothing_is_asked_where_sharp_is_not_wanted_or_no_switch_can(subnet):
    node = NodeWithTool()
    judged(subnet, node, sharp=False)
    subnet.fabric.aggregating = frozenset()
    judged(subnet, node)
    assert node.calls == []


def test_rail_without_a_job_is_named(subnet):
    site, told, _ = judged(subnet, NodeWithTool(mlx5_1=ToolOutput("", NO_MANAGER, 255)))
    says = "node001 rail 1 gets no SHARP job, which the site wants (fabric_sharp): "
    said = f"sharp_hello on node001: {NO_MANAGER.strip()}"
    assert told == [("wrong", "node001 rail 1", says + said)]
    assert site.exit_code == ExitCode.FAILED


def test_manager_that_gives_no_job_at_all_is_one_finding_of_no_node(subnet):
    away = ToolOutput("", NO_MANAGER, 255)
    _, told, _ = judged(subnet, NodeWithTool(mlx5_0=away, mlx5_1=away))
    assert [(level, where) for level, where, _ in told] == [("wrong", "")]


@pytest.mark.parametrize("is_member", [True, False])
def test_what_no_host_tells_is_not_verified(subnet, is_member):
    reserved = ToolOutput(RESERVED, "", 255)
    node = NodeWithTool(mlx5_0=reserved, mlx5_1=reserved, any=reserved)
    node.name = "node001" if is_member else "this machine"
    site, told, _ = judged(subnet, node)
    ((level, where, text),) = told
    assert (level, where) == ("unknown", "")
    assert f"sharp_hello on {node.name}" in text
    assert site.exit_code == ExitCode.UNKNOWN
    assert len(node.calls) == (2 if is_member else 1)


def test_one_rail_that_does_not_tell_is_not_hidden_by_the_other(subnet):
    _, told, _ = judged(subnet, NodeWithTool(mlx5_0=ToolOutput(OF_MANAGER, "", 1)))
    ((level, _, text),) = told
    assert level == "unknown"
    assert text.startswith("whether a SHARP job is given on node001 rail 0: ")
