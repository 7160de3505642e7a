"""What Slurm's commands print, read: real text, other versions' words, and lines of a stranger."""

from __future__ import annotations

from pathlib import Path

import pytest

from rdmaprov.scheduler.model import NodeStatus, our_reason
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.slurm_text import parse_jobs, parse_nodes

FIXTURES = Path(__file__).parents[2] / "fixtures/slurm"
SHOWN = (FIXTURES / "show_node.txt").read_text()
NAMES = ("n1", "n2", "n3", "n4")


def test_idle_drained_and_draining_nodes_of_a_real_slurm():
    found = parse_nodes(SHOWN, NAMES)
    assert [found[name].idle for name in NAMES] == [True, False, False, True]
    assert [found[name].drains for name in NAMES] == [False, True, True, False]
    assert [found[name].busy for name in NAMES] == [False, False, True, False]
    assert (found["n3"].reason, found["n3"].is_ours) == ("rdmaprov: replace", True)
    assert not found["n2"].is_ours


def test_reason_that_imitates_fields_and_lines_changes_no_state():
    found = parse_nodes(SHOWN, NAMES)["n2"]
    assert found.word == "idle+drain"
    assert found.reason == "bad State=IDLE mainboard [x@y]"


def test_node_whose_daemon_does_not_answer_is_not_up():
    found = parse_nodes((FIXTURES / "show_node_restarted.txt").read_text(), ("n3", "n4"))
    assert (found["n3"].up, found["n3"].busy, found["n4"].up) == (False, True, True)


# Flags by Slurm's node_state_flag_string and node_state_string_complete; older versions' signs.
@pytest.mark.parametrize(
    ("word", "idle", "drains", "busy", "up"),
    [
        ("IDLE", True, False, False, True),
        ("IDLE+CLOUD", True, False, False, True),
        ("IDLE+DYNAMIC_NORM", True, False, False, True),
        ("IDLE*", False, False, False, False),
        ("IDLE~+CLOUD", False, False, False, False),
        ("IDLE+PLANNED", False, False, False, True),
        ("IDLE+MAINTENANCE+RESERVED", False, False, False, True),
        ("IDLE+A_FLAG_OF_TOMORROW", False, False, False, True),
        ("MIXED+PLANNED", False, False, True, True),
        ("IDLE+COMPLETING", False, False, True, True),
        ("ALLOCATED*+DRAIN", False, True, True, False),
        ("MIXED+DRAIN", False, True, True, True),
        ("DOWN*+DRAIN", False, True, False, False),
        ("DOWN+DRAIN+NOT_RESPONDING", False, True, False, False),
        ("DOWN", False, False, False, False),
        ("IDLE+DRAIN+REBOOT_ISSUED", False, True, False, False),
    ],
)
def test_state_is_read_in_every_version_s_words(word, idle, drains, busy, up):
    status = parse_nodes(f"NodeName=n1 Arch=x86_64 State={word} ThreadsPerCore=1\n", ["n1"])["n1"]
    seen = (status.idle, status.drains, status.busy, status.up)
    assert seen == (idle, drains, busy, up)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NodeName=n1 Arch=x86_64 ThreadsPerCore=1\n",
        "NodeName=n1 Arch=x86_64 Reason=x State=IDLE [root@2026-11-23T23:34:39]\n",
        "NodeName=n1 x State=IDLE y\nNodeName=n1 x State=IDLE y\n",
        "NodeName=n2 x State=IDLE y\n",
        "scontrol: error\n",
        "{}",
    ],
)
def test_answer_that_does_not_say_a_node_s_state_is_an_error(text):
    with pytest.raises(SchedulerError, match="cannot be read"):
        parse_nodes(text, ["n1"])


def test_jobs_are_given_to_each_of_their_nodes():
    text = "12|n1\n13_4|n[2-3]\n14+1|gpu-1-[01,03]\n"
    assert parse_jobs(text) == {
        "n1": ("12",),
        "n2": ("13_4",),
        "n3": ("13_4",),
        "gpu-1-01": ("14+1",),
        "gpu-1-03": ("14+1",),
    }
    assert parse_jobs("") == {}


@pytest.mark.parametrize("text", ["12\n", "x|n1\n", "12|n1 n2\n", "slurm_load_jobs error\n"])
def test_line_that_is_no_job_is_an_error(text):
    with pytest.raises(SchedulerError, match="cannot be read"):
        parse_jobs(text)


def test_what_a_reason_must_not_have_is_left_out():
    assert our_reason('a "b"\n\x1b[31m$(c) état=x') == "rdmaprov: a b 31m (c) tat x"
    assert len(our_reason("x" * 500)) == 200


def test_state_is_one_printable_line():
    status = NodeStatus("n1", "mixed+drain", True, True, False, True, "bad\x1b[2J", ("7", "8"))
    assert status.text == "mixed+drain (bad\\x1b[2J) jobs 7, 8"
