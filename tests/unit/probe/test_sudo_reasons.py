"""The password of sudo, and what sudo and the shell print when there is none, or it refuses."""

import sys

import pytest
from tests.tables import cases
from tests.unit.helpers.local_node import here

from rdmaprov.apply.events import parse_event
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.reasons import reason, sudo_reason
from rdmaprov.probe.sudo import PROMPT
from rdmaprov.probe.target import Target

PASSWORD = "sudo requires a password. Pass --ask-become-pass, or allow sudo without a password"
MISSING = "sudo is not installed. Install it on the node, or log in as root"
# As sudo 1.8 and 1.9 (Debian 12 and 13, RHEL 7 to 9), bash, dash, zsh and env print it.
PRINTED = cases(__file__, "printed")
CASES = pytest.mark.parametrize(("printed", "says"), PRINTED.values(), ids=PRINTED)


@CASES
def test_connection_tells_it(printed: str, says: str):
    found = reason(printed, 1, here("gpu01"))
    assert found.text.startswith(says)
    assert "python" not in found.text


@CASES
def test_plan_and_apply_tell_it_though_ansible_says_that_the_interpreter_may_be_wrong(
    printed: str, says: str
):
    result = {
        "msg": "Module result deserialization failed: No start of json char found. See stdout/"
        "stderr for the returned output. Consider overriding the configured interpreter path.",
        "module_stderr": f"Warning: Permanently added 'gpu01' to known hosts.\n{printed}",
        "rc": 127,
    }
    data = {"host": "gpu01", "task_action": "rdmaprov.node.survey", "res": result}
    event = parse_event({"event": "runner_on_failed", "event_data": data})
    assert event is not None
    assert event.message.startswith(says)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("Task failed: Missing sudo password", PASSWORD),
        ("Task failed: Incorrect sudo password", "sudo rejects the password"),
    ],
)
def test_what_ansible_says_itself_is_told_alike(message: str, says: str):
    data = {"host": "gpu01", "res": {"msg": message}}
    event = parse_event({"event": "runner_on_failed", "event_data": data})
    assert event is not None
    assert event.message.startswith(says)


@pytest.mark.parametrize("printed", cases(__file__, "what_sudo_did_not_cause_is_not_told_as_sudo"))
def test_what_sudo_did_not_cause_is_not_told_as_sudo(printed: str):
    assert sudo_reason(printed) is None


def test_missing_python_is_told_as_that():
    found = reason("sudo: python3: command not found\n", 1, here("gpu01"))
    assert found.text == "python3 was not found. Set its ansible_python_interpreter"


# As sudo -S asks: its prompt on standard error, three tries, each one line of its input, byte by
# byte. FREE is a sudo that asks nobody; ASKED has the tries.
SUDO = cases(__file__, "sudo")


def behind_sudo(tmp_path, password, free=""):
    sudo = tmp_path / "sudo.py"
    sudo.write_text(SUDO)
    seen = f'echo "$0" >>{tmp_path}/argv; export ASKED={tmp_path}/asked FREE={free}; eval "$0"'
    python = f"{sys.executable} {sudo} -S -p {PROMPT} -u root {sys.executable}"
    return Target("n1", "", ("/bin/sh", "-c", seen), python, 10, sys.executable, password)


@pytest.mark.parametrize("free", ["", "yes"])
def test_password_of_sudo_is_given_when_it_asks(tmp_path, free):
    target = behind_sudo(tmp_path, "it is", free)
    probe = Probe({"n1": target})
    answer = probe.run("n1", "cat; env; tr '\\0' ' ' </proc/$PPID/cmdline")
    probe.close()
    assert answer.rc == 0
    assert "it is" not in answer.out + answer.err + repr(target) + (tmp_path / "argv").read_text()
    assert (tmp_path / "asked").exists() is not bool(free)


def test_wrong_password_is_tried_once(tmp_path):
    probe = Probe({"n1": behind_sudo(tmp_path, "wrong")})
    with pytest.raises(NodeUnreachable, match="n1: sudo rejects the password") as refused:
        probe.run("n1", "true")
    probe.close()
    assert (tmp_path / "asked").read_text() == "wrong\n"
    assert "wrong" not in str(refused.value)


def test_login_that_slurm_s_pam_module_refuses_is_named():
    said = "Access denied by pam_slurm_adopt: you have no active jobs on this node"
    assert reason(said, 255, here("gpu01")).what.startswith("Slurm's PAM module admits only users")
