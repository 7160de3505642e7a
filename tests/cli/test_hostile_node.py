"""A node whose Python answers what an attacker likes: its own run fails, and nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root")

BOOT_ID = "1f0e3dad-9990-4c8d-8f3b-7c9e1f2a3b4c"
PLAN = {"changes": [], "diff": [], "reboot": [], "notes": [], "waits": ""}
CHANGE = {"layer": "running", "device": "kernel", "setting": "x", "seen": "1", "wanted": "2"}
SURVEY = {
    "changed": False,
    "roles": {"limits": {**PLAN, "changes": [CHANGE]}},
    "pending": ["limits"],
    "problems": [],
    "boot_id": BOOT_ID,
}
# Its Python: a survey gets the first answer, a role's module the second one.
LIAR = """\
#!/bin/sh
case "$(cat "$@" 2> /dev/null; cat)" in
*plugins/modules/survey* | *rdmaprov.node.survey*) cat {survey} ;;
*) cat {role} ;;
esac
"""
HOSTS = """\
---
nodes:
  hosts:
    n1: {{unit: 1, ansible_python_interpreter: {liar}}}
    n3: {{unit: 3, ansible_python_interpreter: {python}}}
  vars: {{ansible_connection: local}}
"""
NOTHING = "limits_memlock_users: []\nlimits_memlock_services: []\nlimits_sysctl: {}\n"


@pytest.fixture
def site(tmp_path):
    """Provide a site of a node that lies, n1, and one that matches, n3: this machine."""
    if Path("/etc/sysctl.d/99-z-rdmaprov-limits.conf").exists():
        pytest.skip("this machine is a node")
    liar = tmp_path / "liar"
    liar.write_text(LIAR.format(survey=tmp_path / "survey.json", role=tmp_path / "role.json"))
    liar.chmod(0o700)
    hosts = HOSTS.format(liar=liar, python=sys.executable)
    files = {"hosts.yml": hosts, "group_vars/nodes.yml": f"---\n{NOTHING}"}
    return write(tmp_path / "site", {**GOOD, **files})


def run(site, verb, survey, role=None):
    """Return how a verb ended, and its results by node."""
    for name, answer in (("survey", survey), ("role", role or {})):
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (site.parent / f"{name}.json").write_text(text)
    argv = [sys.executable, "-m", "rdmaprov", verb, "site", "--roles", "limits"]
    done = subprocess.run(
        argv, cwd=site.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    (kept,) = (site.parent / "runs").glob("*/results.json")
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "\x1b" not in said
    return done.returncode, said, json.loads(kept.read_text())["nodes"]


def canary(site):
    """Return keys that Ansible acts on in any result, and the file that shows that it did."""
    canary = site.parent / "canary"
    here = {"ansible_connection": "local", "ansible_python_interpreter": f"/usr/bin/touch {canary}"}
    return {
        "add_host": {"host_name": "n1", "groups": [], "host_vars": here},
        "ansible_facts": {"ansible_python_interpreter": f"/usr/bin/touch {canary}"},
    }, canary


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pending": ["limits", "x/../../evil"]}, "has other roles pending than it covers"),
        ({"pending": {"limits": 1}}, "pending is no list"),
        ({"pending": []}, "has changes of limits, which is not pending"),
        ({"pending": ["limits", "limits"]}, "has other roles pending"),
        ({"roles": {"limits": PLAN, "evil": PLAN}}, "covers other roles"),
        ({"roles": {"limits": {**PLAN, "when": 1}}}, "is incomplete: limits"),
        ({"roles": {"limits": {**PLAN, "changes": [{**CHANGE, "seen": 1}]}}}, "seen is no text"),
        ({"roles": {"limits": {**PLAN, "changes": [{"seen": "1"}]}}}, "a change has only seen"),
        ({"problems": "none"}, "problems is no list"),
        ({"problems": ["the disk is full"]}, "the disk is full"),
        ({"boot_id": "{{ lookup('pipe', 'id') }}"}, "has no boot_id"),
        ({"boot_id": None}, "boot_id is no text"),
        ({"busy": "nobody"}, "busy is no list"),
        ({"busy": [7]}, "busy is no text"),
        ({"roles": {"limits": {**PLAN, "interrupts": "none"}}}, "interrupts is no list"),
    ],
)
def test_odd_survey_fails_its_own_node_alone(site, change, says):
    code, said, nodes = run(site, "plan", {**SURVEY, **change})
    assert code == 1, said
    assert nodes["n1"]["state"] == "failed"
    assert says in " ".join(nodes["n1"]["problems"]) + said
    assert nodes["n3"]["state"] == "unchanged"


@pytest.mark.parametrize("answer", ["", "x", "[1]", "null", '{"roles": NaN', "\x1b[2J{}"])
def test_answer_that_is_none_fails_its_own_node_alone(site, answer):
    code, said, nodes = run(site, "plan", answer)
    assert code == 1, said
    assert (nodes["n1"]["state"], nodes["n3"]["state"]) == ("failed", "unchanged")


@pytest.mark.parametrize("endless", ["survey", "role"])
def test_answer_without_an_end_fails_its_own_node_alone(site, endless):
    (site.parent / f"{endless}.json").symlink_to("/dev/zero")
    code, said, nodes = run(site, "apply", SURVEY)
    assert code == 1, said
    assert "the node's answer takes more than 128 MiB" in " ".join(nodes["n1"]["problems"])
    assert (nodes["n1"]["state"], nodes["n3"]["state"]) == ("failed", "unchanged")


def test_what_ansible_acts_on_is_dropped_from_a_survey(site):
    keys, touched = canary(site)
    _, said, nodes = run(site, "apply", {**SURVEY, **keys})
    assert not touched.exists(), said
    assert nodes["n3"]["state"] == "unchanged"


def test_what_ansible_acts_on_is_dropped_from_a_role_s_answer(site):
    keys, touched = canary(site)
    done = {"changed": True, "changes": [CHANGE], "diff": [], "reboot": [], "notes": [], **keys}
    code, said, nodes = run(site, "apply", SURVEY, done)
    assert not touched.exists(), said
    assert code in (1, 4)
    assert nodes["n1"]["state"] in ("failed", "half_done")
    assert nodes["n3"]["state"] == "unchanged"


@pytest.mark.parametrize(
    "answer",
    [
        {"changed": 1},
        {"changed": True, "changes": {}},
        {"failed": True},
        {"failed": True, "held": {"holder": {"user": "\x1b[2J"}, "running": True, "left_s": 1e9}},
        {},
    ],
)
def test_odd_answer_of_a_role_fails_its_own_node_alone(site, answer):
    code, said, nodes = run(site, "apply", SURVEY, answer)
    assert code == 1, said
    assert (nodes["n1"]["state"], nodes["n3"]["state"]) == ("failed", "unchanged")


def test_no_escape_of_a_node_s_reaches_the_terminal_or_the_results(site):
    odd = {**CHANGE, "seen": "\x1b]0;x\x07 \x9b2J \u202e1", "wanted": "\x1b[31m"}
    code, said, nodes = run(
        site, "plan", {**SURVEY, "roles": {"limits": {**PLAN, "changes": [odd]}}}
    )
    assert code == 5, said
    assert r"\x1b]0;x\x07 \x9b2J \u202e1" in said
    assert "\u202e" not in json.dumps(nodes, ensure_ascii=False)


@pytest.mark.parametrize(("verb", "words"), [("plan", ()), ("apply", ("--verbose",))])
def test_closed_standard_output_ends_the_run_and_its_results_are_kept(site, verb, words):
    (site.parent / "survey.json").write_text(json.dumps(SURVEY))
    (site.parent / "role.json").write_text("{}")
    argv = [sys.executable, "-m", "rdmaprov", verb, "site", "--roles", "limits", *words]
    with subprocess.Popen(
        argv, cwd=site.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=120) in (ExitCode.FAILED, ExitCode.INTERRUPTED)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    (kept,) = (site.parent / "runs").glob("*/results.json")
    assert json.loads(kept.read_text())["nodes"].keys() == {"n1", "n3"}
    assert (kept.parent / "report.html").exists()


def test_sigterm_is_an_interrupt_of_check_too(site):
    slow = site / "group_vars" / "nodes.yml"
    slow.write_text(slow.read_text() + "ofed_version: \"{{ lookup('pipe', 'sleep 20') }}\"\n")
    argv = [sys.executable, "-m", "rdmaprov", "check", "site"]
    with subprocess.Popen(argv, cwd=site.parent, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(5)
        process.terminate()
        assert process.stderr
        assert "error: interrupted" in process.stderr.read()
        assert process.wait(timeout=30) == ExitCode.INTERRUPTED
