"""A node whose Python answers what an attacker likes: its own run fails, and nothing else does."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.program import call
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a survey needs root")

BOOT_ID = "1f0e3dad-9990-4c8d-8f3b-7c9e1f2a3b4c"
PLAN = {"changes": [], "diff": [], "reboot": [], "notes": [], "waits": ""}
CHANGE = {"layer": "running", "device": "kernel", "setting": "x", "seen": "1", "wanted": "2"}
SURVEY = cases(__file__, "survey")
# Its Python: a survey gets the first answer, a role's module the second one.
LIAR = cases(__file__, "liar")
HONEST = "honest"
NOTHING = "limits_memlock_users: []\nlimits_memlock_services: []\nlimits_sysctl: {}\n"
ODD_SURVEYS: list[tuple[dict[str, object], str]] = [
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
]
NO_SURVEYS = ["", "x", "[1]", "null", '{"roles": NaN', "\x1b[2J{}"]
ODD_ANSWERS = cases(__file__, "odd_answers")


class Site:
    """A site of nodes that lie, n1, n2, ..., and one that is honest: this machine."""

    def __init__(self, directory, surveys, answers=None):
        if Path("/etc/sysctl.d/99-z-rdmaprov-limits.conf").exists():
            pytest.skip("this machine is a node")
        self.directory = directory
        hosts: dict[str, dict[str, object]] = {
            HONEST: {"unit": 1, "ansible_python_interpreter": sys.executable}
        }
        for number, survey in enumerate(surveys, 1):
            own = directory / f"n{number}"
            own.mkdir()
            for name, answer in (("survey", survey), ("role", (answers or {}).get(number, {}))):
                text = answer if isinstance(answer, str) else json.dumps(answer)
                (own / f"{name}.json").write_text(text)
            liar = own / "liar"
            liar.write_text(LIAR.format(survey=own / "survey.json", role=own / "role.json"))
            liar.chmod(0o700)
            hosts[own.name] = {"unit": number + 1, "ansible_python_interpreter": str(liar)}
        nodes: dict[str, object] = {"hosts": hosts, "vars": {"ansible_connection": "local"}}
        files = {
            "hosts.yml": json.dumps({"nodes": nodes}),
            "group_vars/nodes.yml": f"---\n{NOTHING}",
        }
        write(directory / "site", {**GOOD, **files})

    def run(self, verb):
        done = call(verb, "site", "--roles", "limits", cwd=self.directory)
        (kept,) = (self.directory / "runs").glob("*/results.json")
        said = done.stdout + done.stderr
        assert "Traceback" not in said
        assert "\x1b" not in said
        return done.returncode, said, json.loads(kept.read_text())["nodes"]


def canary(directory):
    """Return keys that Ansible acts on in any result, and the file that shows that it did."""
    canary = directory / "canary"
    here = {"ansible_connection": "local", "ansible_python_interpreter": f"/usr/bin/touch {canary}"}
    return {
        "add_host": {"host_name": "n1", "groups": [], "host_vars": here},
        "ansible_facts": {"ansible_python_interpreter": f"/usr/bin/touch {canary}"},
    }, canary


def test_each_odd_survey_fails_its_own_node_alone(tmp_path):
    surveys = [*({**SURVEY, **change} for change, _ in ODD_SURVEYS), *NO_SURVEYS]
    code, said, nodes = Site(tmp_path, surveys).run("plan")
    assert code == 1, said
    assert {name: own["state"] for name, own in nodes.items()} == {
        HONEST: "unchanged",
        **{f"n{number + 1}": "failed" for number in range(len(surveys))},
    }
    for number, (_, says) in enumerate(ODD_SURVEYS, 1):
        assert says in " ".join(nodes[f"n{number}"]["problems"])


@pytest.mark.parametrize("endless", ["survey", pytest.param("role", marks=pytest.mark.long)])
def test_answer_without_an_end_fails_its_own_node_alone(tmp_path, endless):
    site = Site(tmp_path, [SURVEY])
    (tmp_path / f"n1/{endless}.json").unlink()
    (tmp_path / f"n1/{endless}.json").symlink_to("/dev/zero")
    code, said, nodes = site.run("apply")
    assert code == 1, said
    assert "the node's answer takes more than 128 MiB" in " ".join(nodes["n1"]["problems"])
    assert (nodes["n1"]["state"], nodes[HONEST]["state"]) == ("failed", "unchanged")


def test_what_ansible_acts_on_is_dropped_from_a_survey_and_a_role_s_answer(tmp_path):
    keys, touched = canary(tmp_path)
    done = {"changed": True, "changes": [CHANGE], "diff": [], "reboot": [], "notes": [], **keys}
    site = Site(tmp_path, [{**SURVEY, **keys}, SURVEY], {2: done})
    code, said, nodes = site.run("apply")
    assert not touched.exists(), said
    assert code in (1, 4)
    assert nodes["n2"]["state"] in ("failed", "half_done")
    assert nodes[HONEST]["state"] == "unchanged"


def test_each_odd_answer_of_a_role_fails_its_own_node_alone(tmp_path):
    answers = dict(enumerate(ODD_ANSWERS, 1))
    code, said, nodes = Site(tmp_path, [SURVEY] * len(answers), answers).run("apply")
    assert code == 1, said
    assert {name: own["state"] for name, own in nodes.items()} == {
        HONEST: "unchanged",
        **{f"n{number}": "failed" for number in answers},
    }


def test_no_escape_of_a_node_s_reaches_the_terminal_or_the_results(tmp_path):
    odd = {**CHANGE, "seen": "\x1b]0;x\x07 \x9b2J \u202e1", "wanted": "\x1b[31m"}
    survey = {**SURVEY, "roles": {"limits": {**PLAN, "changes": [odd]}}}
    code, said, nodes = Site(tmp_path, [survey]).run("plan")
    assert code == 5, said
    assert r"\x1b]0;x\x07 \x9b2J \u202e1" in said
    assert "\u202e" not in json.dumps(nodes, ensure_ascii=False)


@pytest.mark.parametrize(
    ("verb", "words"), [pytest.param("plan", (), marks=pytest.mark.long), ("apply", ("--verbose",))]
)
def test_closed_standard_output_ends_the_run_and_its_results_are_kept(tmp_path, verb, words):
    Site(tmp_path, [SURVEY])
    with subprocess.Popen(
        [sys.executable, "-m", "rdmaprov", verb, "site", "--roles", "limits", *words],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=120) in (ExitCode.FAILED, ExitCode.INTERRUPTED)
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    (kept,) = (tmp_path / "runs").glob("*/results.json")
    assert json.loads(kept.read_text())["nodes"].keys() == {"n1", HONEST}
    assert (kept.parent / "report.html").exists()


def test_sigterm_is_an_interrupt_of_check_too(tmp_path):
    Site(tmp_path, [])
    slow = tmp_path / "site/group_vars/nodes.yml"
    slow.write_text(slow.read_text() + "ofed_version: \"{{ lookup('pipe', 'sleep 20') }}\"\n")
    argv = [sys.executable, "-m", "rdmaprov", "check", "site"]
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(5)
        process.terminate()
        assert process.stderr
        assert "error: interrupted" in process.stderr.read()
        assert process.wait(timeout=30) == ExitCode.INTERRUPTED
