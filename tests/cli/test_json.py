"""`--json -` of every verb: standard output is JSON and nothing else, and says what is waived."""

import json
import sys

import jsonschema
import pytest
from tests.program import call
from tests.tables import cases
from tests.unit.acceptance.test_acceptance_result import SCHEMA
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode

RUN_VERBS = ("plan", "apply", "validate", "accept")
CLOSED = "{ansible_host: 127.0.0.1, ansible_port: 1, ansible_ssh_timeout: 5}"
HOSTS = f"---\nnodes:\n  vars: {CLOSED}\n  hosts:\n    n1: {{unit: 1}}\n    n2: {{unit: 2}}\n"
WAIVER = (
    "roce_qos_trust: pcp\n"
    "fabric_waivers: [{rule: qos.trust, reason: 'old <b>switch</b>', nodes: [n1, n2]}]\n"
)
WAIVED = cases(__file__, "waived")
LINE = "waived (qos.trust: old <b>switch</b>): roce_qos_trust: ports trust PCP"


def run(site, *words):
    return call(*words, cwd=site.parent)


@pytest.fixture
def site(tmp_path):
    everyone = GOOD["group_vars/all.yml"] + WAIVER
    return write(tmp_path / "site", {"hosts.yml": HOSTS, "group_vars/all.yml": everyone})


@pytest.mark.parametrize("verb", RUN_VERBS)
def test_run_says_what_is_waived(tmp_path, site, verb):
    done = run(site, verb, "site", "--json", "-")
    assert done.returncode == ExitCode.UNKNOWN, done.stderr
    results = json.loads(done.stdout)
    assert results["waivers"] == [WAIVED]
    jsonschema.validate(results, SCHEMA)
    assert done.stderr.count(LINE) == 1
    (directory,) = (path for path in (tmp_path / "runs").iterdir() if path.name[0] != ".")
    page = (directory / "report.html").read_text()
    assert "Waived rules" in page
    assert "qos.trust: old &lt;b&gt;switch&lt;/b&gt;" in page


def test_check_says_what_is_waived(site):
    done = run(site, "check", "site", "--json", "-")
    assert json.loads(done.stdout) == {"site": "site", "problems": [], "waivers": [WAIVED]}
    assert done.stderr.startswith(LINE)


def test_discover_says_what_is_waived(site):
    assert LINE in run(site, "discover", "site").stderr


def test_pytest_says_what_is_waived(tmp_path, site):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["rdmaprov.validate.plugin"]\n')
    (tmp_path / "test_own.py").write_text("def test_node(node):\n    pass\n")
    command = [sys.executable, "-m", "pytest", "test_own.py", f"--inventory={site}"]
    done = execute(command, cwd=tmp_path)
    assert f"\n{LINE}" in done.stdout, done.stdout


@pytest.mark.parametrize("verb", RUN_VERBS)
def test_problems_of_a_site_leave_standard_output_empty(site, verb):
    write(site, {"group_vars/nodes.yml": "fabric_mtu_bytes: 1500\n"})
    done = run(site, verb, "site", "--json", "-")
    assert (done.returncode, done.stdout) == (ExitCode.INVALID_SITE, "")
    assert "fabric_mtu_bytes: 1500 is too small" in done.stderr
    assert "fabric_mtu_bytes: 1500 is too small" in run(site, verb, "site").stdout
    assert not (site.parent / "runs").exists()


@pytest.mark.parametrize("words", cases(__file__, "refusal_leaves_standard_output_empty"))
def test_refusal_leaves_standard_output_empty(site, words):
    done = run(site, *words, "--json", "-")
    assert done.returncode in (ExitCode.USAGE, ExitCode.INVALID_SITE)
    assert done.stdout == ""
    assert done.stderr
