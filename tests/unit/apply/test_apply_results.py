"""Events of real runs become results, text, why a node failed, and an exit code."""

import json
from pathlib import Path

import pytest

from rdmaprov.apply import summary
from rdmaprov.apply.events import Change, NodeEvent, RolePlan, Survey, parse_event
from rdmaprov.apply.progress import event_line
from rdmaprov.apply.results import NodeResult, NodeState, Results, next_result, role_states
from rdmaprov.exit_codes import ExitCode

EVENTS = Path(__file__).parents[2] / "fixtures" / "ansible_events"


def events(name):
    return [json.loads(line) for line in (EVENTS / f"{name}.jsonl").read_text().splitlines()]


def run(name, *, applies=True, until=None):
    results = Results(("node1", "node2", "node3"), applies=applies)
    for raw in events(name)[:until]:
        event = parse_event(raw)
        if event is not None:
            results.record(event)
    return results


def shown(lines):
    return "\n".join(line.text for line in lines)


def results_of(*nodes, interrupted=False):
    results = Results((), applies=True)
    results.nodes = {node.name: node for node in nodes}
    results.interrupted = interrupted
    return results


REFUSED = "ssh: connect to host 127.0.0.1 port 1: Connection refused"


def index(name, kind, task):
    return next(
        number
        for number, event in enumerate(events(name))
        if event["event"] == kind and event["event_data"]["task"] == task
    )


@pytest.mark.parametrize(
    ("name", "applies", "state"),
    [
        ("plan", False, NodeState.PENDING),
        ("failed", True, NodeState.FAILED),
        ("changed", True, NodeState.CHANGED),
        ("unchanged", True, NodeState.UNCHANGED),
    ],
)
def test_node_s_state_is_what_became_of_it(name, applies, state):
    results = run(name, applies=applies)
    assert {node.name: node.state for node in results.nodes.values()} == {
        "node1": state,
        "node2": NodeState.UNREACHABLE,
        "node3": NodeState.NOT_STARTED,
    }
    assert results.nodes["node2"].problem == REFUSED


def test_plan_names_each_setting_once_with_its_layers():
    text = shown(summary.plan_lines(run("plan", applies=False), diffs=True))
    assert text.startswith(
        "mtu\n"
        "  node1: ens1 MTU 1500 → 4200 (running, configured)\n"
        "  node1: ens2 MTU 1500 → 4200 (running, configured)\n"
        "  node1: /etc/systemd/network/20-rdmaprov-ens1.network.d/rdmaprov-mtu.conf\n"
    )
    assert text.count("    +MTUBytes=4200\n") == 2
    assert text.endswith("3 nodes: 1 pending, 1 unreachable (node2), 1 not started (node3)")


def test_plan_names_what_interrupts_traffic_and_who_uses_the_node():
    plans = {
        "mtu": RolePlan(interrupts=("ens1 MTU: queues closed, for under 1 s", "a reboot")),
        "pcie": RolePlan(reboot=("iommu=pt",), interrupts=("a reboot",)),
    }
    users = ("pid 7 of ana, python3: /dev/nvidia0\x1b[2J",)
    before = Survey(plans, pending=("mtu",), busy=users, standing=("standing: gpud",))
    node = NodeResult("busy", before=before)
    assert (
        "apply interrupts traffic\n  busy: ens1 MTU: queues closed, for under 1 s\n"
        "  busy: a reboot\nbusy: apply refuses these nodes without --force-busy\n"
        "  busy: pid 7 of ana, python3: /dev/nvidia0\\x1b[2J\n"
        "standing programs, which do not count as busy (scheduler_standing_processes)\n"
        "  busy: standing: gpud\nreboot required after apply\n"
    ) in shown(summary.plan_lines(results_of(FINE, node), diffs=False))
    assert results_of(node).as_data()["busy"]["interrupts"] == list(before.interrupts)


def test_changes_are_those_the_role_made():
    node = run("changed").nodes["node1"]
    assert [(c.layer, c.device) for c in node.changes["mtu"]] == [
        ("configured", "ens1"),
        ("configured", "ens2"),
    ]
    assert node.roles_started == ("mtu",)


def test_node_between_a_role_and_the_last_survey_is_incomplete():
    results = run("changed", until=index("changed", "runner_on_start", "Read what the node is now"))
    assert results.nodes["node1"].state is NodeState.INCOMPLETE
    assert "roles started: mtu" in shown(summary.apply_lines(results))


def test_interrupted_run_names_finished_incomplete_and_not_started_nodes():
    half = run("changed", until=index("changed", "runner_on_start", "Read what the node is now"))
    nodes = (FINE, half.nodes["node1"], NodeResult("late", True))
    text = shown(summary.apply_lines(results_of(*nodes, interrupted=True)))
    assert "not started\n  late\n" in text
    assert "finished\n  fine\nincomplete; a task that still runs on a node ends by itself\n" in text
    assert "  node1: roles started: mtu\n" in text
    assert text.endswith("3 nodes: 1 unchanged, 1 incomplete (node1), 1 not started (late)")


def node_event(kind, *, role="", **more):
    return NodeEvent(kind, "n", role, "task", **more)


def became(*events_):
    node = NodeResult("n", True)
    for event in events_:
        node = next_result(node, event)
    return node


FIT = node_event("done", survey=Survey())


@pytest.mark.parametrize(
    ("then", "state"),
    [
        ([], NodeState.UNCHANGED),
        ([node_event("started", role="reboot")], NodeState.INCOMPLETE),
        (
            [node_event("started", role="reboot"), node_event("skipped", role="reboot")],
            NodeState.UNCHANGED,
        ),
        ([node_event("done", role="reboot")], NodeState.UNCHANGED),
        ([node_event("done", role="reboot", changed=True)], NodeState.INCOMPLETE),
        ([node_event("done", role="reboot", changed=True), FIT], NodeState.CHANGED),
        ([FIT, node_event("unreachable", role="reboot", message="gone")], NodeState.UNREACHABLE),
    ],
)
def test_role_that_runs_on_a_node_with_nothing_pending_counts_if_it_changes(then, state):
    node = became(FIT, *then)
    assert node.state is state
    assert node.before == Survey()


def test_node_that_is_lost_during_a_role_says_so():
    text = shown(
        summary.apply_lines(
            results_of(became(FIT, node_event("unreachable", role="reboot", message="gone")))
        )
    )
    assert "unreachable\n  n: connection lost during role reboot: gone\n" in text


def test_node_that_was_only_surveyed_is_not_started():
    until = index("changed", "runner_on_start", "Set the MTU of the rails")
    assert run("changed", until=until).nodes["node1"].state is NodeState.NOT_STARTED


def test_lines_that_stay_are_changes_and_failures_only():
    lines = [event_line(event) for raw in events("changed") if (event := parse_event(raw))]
    assert [line.text for line in lines if line] == [
        f"node2: unreachable: {REFUSED}",
        "node1: mtu: 2 changes",
    ]


FINE = NodeResult("fine", True, before=Survey())
REBOOT = NodeResult("boot", True, before=Survey({"mlx5": RolePlan(reboot=("mlx5_core: a=1",))}))
LOST = NodeResult("lost", True, unreachable=True, problem="no route")
BROKEN = NodeResult("broken", True, failed="mtu: Set it", problem="cannot")
_ODD = Survey({"mtu": RolePlan()}, problems=("mtu: 12 ports",), unknown=("mtu",))
PLANES = NodeResult("odd", True, before=_ODD, failed="Survey", problem="mtu: 12 ports")
PENDING = NodeResult("todo", False, before=Survey({"mtu": RolePlan()}, ("mtu",)))


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ((FINE,), ExitCode.OK),
        ((FINE, REBOOT), ExitCode.PENDING),
        ((FINE, PENDING), ExitCode.PENDING),
        ((FINE, REBOOT, LOST), ExitCode.UNKNOWN),
        ((FINE, NodeResult("silent", True)), ExitCode.UNKNOWN),
        ((FINE, REBOOT, LOST, BROKEN), ExitCode.FAILED),
        ((FINE, REBOOT, PLANES), ExitCode.UNKNOWN),
        ((PLANES, BROKEN), ExitCode.FAILED),
    ],
)
def test_exit_code_is_the_worst_of_the_nodes(nodes, code):
    assert results_of(*nodes).exit_code() == code
    assert results_of(*nodes, interrupted=True).exit_code() == ExitCode.INTERRUPTED


def test_device_that_is_not_supported_is_unknown():
    text = shown(summary.plan_lines(results_of(FINE, PLANES), diffs=False))
    assert "unknown\n  odd: mtu: 12 ports\n" in text
    assert results_of(PLANES).as_data()["odd"]["state"] == "unknown"
    assert role_states(PLANES) == {"mtu": "unknown"}


def test_required_reboot_has_its_reason():
    text = shown(summary.apply_lines(results_of(FINE, REBOOT)))
    assert "reboot required\n  boot: mlx5_core: a=1\n" in text
    assert text.endswith("2 nodes: 2 unchanged; reboot required on boot")


def test_role_that_waits_is_pending():
    waits = RolePlan(waits="there is no /sys/module/mlx5_core")
    survey = Survey({"ofed": RolePlan(), "mlx5": waits}, ("ofed", "mlx5"))
    text = shown(summary.plan_lines(results_of(NodeResult("n", before=survey)), diffs=False))
    assert "mlx5\n  n: waits for an earlier role: there is no /sys/module/mlx5_core\n" in text


def test_failure_is_named_with_task_and_reason():
    results = run("failed")
    text = shown(summary.apply_lines(results))
    assert (
        "  node1: mtu: Set the MTU of the rails: /etc/systemd/network/20-rdmaprov-ens1.network.d/"
        "rdmaprov-mtu.conf cannot be written: Operation not permitted\n"
    ) in text
    assert "not started; the run stopped after failures\n  node3\n" in text
    assert results.exit_code() == ExitCode.FAILED


def reason(result, task="t", **more):
    data = {"host": "n", "task": task, "res": result, **more}
    event = parse_event({"event": "runner_on_failed", "event_data": data})
    assert event is not None
    return event.message


def test_setting_that_is_still_wrong_after_the_run_is_the_failure_s_reason():
    left = Change("running", "ens1", "MTU", "1500", "9000")
    roles = {"mtu": {"changes": [vars(left)], "diff": [], "reboot": []}}
    seen = {"roles": roles, "pending": ["mtu"], "problems": []}
    assert reason(seen, "Read what the node is now", resolved_action="rdmaprov.node.survey") == (
        "still different from the site after apply: mtu: ens1 MTU (running) is 1500, expected 9000"
    )


def test_censored_result_says_no_more_than_that():
    assert reason({"censored": "hidden by no_log"}) == "hidden by no_log"


def test_text_of_a_node_cannot_move_the_cursor():
    broken = NodeResult("n", True, failed="t", problem="\x1b[2Jgone\nnode9: fine")
    text = shown(summary.apply_lines(results_of(broken)))
    assert "\x1b" not in text
    assert "\n  n: t: \\x1b[2Jgone\\nnode9: fine\n" in text


def test_full_disk_is_named_though_no_module_could_start():
    said = reason(
        {
            "msg": "Module result deserialization failed: No start of json char found",
            "module_stderr": "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] "
            "No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/root']",
        }
    )
    assert said.startswith("No space left on device")
    assert "df -h" in said


def test_failed_node_has_a_line_for_each_problem_and_for_what_is_pending():
    """A systemctl command of three lines was one run-on with `\\n` between the problems."""
    found = ("ofed: no package\nfor this kernel", "mtu: ens1 does not exist")
    change = Change("running", "", "nr_hugepages", "0", "16")
    survey = Survey({"hugepages": RolePlan((change,))}, ("hugepages",), found)
    node = NodeResult("n1", False, before=survey, failed="Survey", problem="; ".join(found))
    lines = [line.text for line in summary.plan_lines(results_of(node, FINE), diffs=False)]
    at = lines.index("failed")
    assert lines[at + 1 : at + 3] == [f"  n1: {' '.join(each.split())}" for each in found]
    assert lines[:2] == ["hugepages", "  n1: nr_hugepages 0 → 16 (running)"]


def test_failed_node_without_a_survey_keeps_its_task():
    assert "  broken: mtu: Set it: cannot" in shown(summary.apply_lines(results_of(BROKEN)))


def test_role_whose_long_step_runs_is_half_done_until_it_answers():
    """What other roles' tasks say meanwhile, which only are skipped, changes nothing."""

    def heard(node, event, role, **result):
        data = {"host": "n1", "role": f"rdmaprov.node.{role}", "res": result}
        data |= {"task": role, "resolved_action": f"rdmaprov.node.{role}"}
        parsed = parse_event({"event": event, "event_data": data})
        assert parsed is not None
        return next_result(node, parsed), parsed

    change = Change("configured", "doca-ofed", "version", "absent", "3.1.0")
    before = Survey({"ofed": RolePlan((change,)), "nccl": RolePlan()}, pending=("ofed", "nccl"))
    node = NodeResult("n1", applies=True, before=before)
    node, event = heard(node, "runner_on_ok", "ofed", changed=False, running=True)
    assert (event.kind, event_line(event)) == ("running", None)
    for kind in ("runner_on_start", "runner_on_skipped"):
        node, _ = heard(node, kind, "nccl")
    assert (node.state, node.under_way) == (NodeState.INCOMPLETE, "ofed")
    assert role_states(node) == {"ofed": "half_done", "nccl": "pending"}
    node, _ = heard(node, "runner_on_ok", "ofed", changed=True, changes=[vars(change)])
    assert (node.under_way, node.changes) == ("", {"ofed": (change,)})
    _, event = heard(node, "runner_on_ok", "survey", running=True, msg="waits for ana's run")
    assert shown([event_line(event)]) == "n1: survey: waits for ana's run"
