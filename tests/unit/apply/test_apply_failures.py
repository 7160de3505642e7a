"""Why a node failed an apply: what is still wrong, secrets, odd texts, a full disk."""

from __future__ import annotations

from tests.unit.helpers.apply_events import results_of, run, shown

from rdmaprov.apply import summary
from rdmaprov.apply.events import Change, parse_event
from rdmaprov.apply.results import NodeResult
from rdmaprov.exit_codes import ExitCode


def test_failure_is_named_with_task_and_reason():
    results = run("failed")
    text = shown(summary.apply_lines(results))
    assert (
        "  node1: mtu: Set the MTU of the rails: /etc/systemd/network/20-rdmaprov-ens1.network.d/"
        "rdmaprov-mtu.conf cannot be written: Operation not permitted\n"
    ) in text
    assert "not started; the run stopped after failures\n  node3\n" in text
    assert results.exit_code() == ExitCode.FAILED


def test_setting_that_is_still_wrong_after_the_run_is_the_failure_s_reason():
    left = Change("running", "ens1", "MTU", "1500", "9000")
    event = {
        "event": "runner_on_failed",
        "event_data": {
            "host": "n",
            "task": "Read what the node is now",
            "resolved_action": "rdmaprov.node.survey",
            "res": {
                "roles": {"mtu": {"changes": [vars(left)], "diff": [], "reboot": []}},
                "pending": ["mtu"],
                "problems": [],
            },
        },
    }
    parsed = parse_event(event)
    assert parsed is not None
    assert parsed.message == (
        "still different from the site after apply: mtu: ens1 MTU (running) is 1500, expected 9000"
    )


def test_censored_result_says_no_more_than_that():
    event = {
        "event": "runner_on_failed",
        "event_data": {"host": "n", "task": "t", "res": {"censored": "hidden by no_log"}},
    }
    parsed = parse_event(event)
    assert parsed is not None
    assert parsed.message == "hidden by no_log"


def test_text_of_a_node_cannot_move_the_cursor():
    broken = NodeResult("n", True, failed="t", problem="\x1b[2Jgone\nnode9: fine")
    text = shown(summary.apply_lines(results_of(broken)))
    assert "\x1b" not in text
    assert "\n  n: t: \\x1b[2Jgone\\nnode9: fine\n" in text


def test_full_disk_is_named_though_no_module_could_start():
    event = {
        "event": "runner_on_failed",
        "event_data": {
            "host": "n",
            "task": "Read what the node is",
            "res": {
                "msg": "Module result deserialization failed: No start of json char found",
                "module_stderr": "Traceback (most recent call last):\nFileNotFoundError: [Errno 2] "
                "No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', '/root']",
            },
        },
    }
    parsed = parse_event(event)
    assert parsed is not None
    assert parsed.message.startswith("No space left on device")
    assert "df -h" in parsed.message
