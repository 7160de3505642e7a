"""`pytest validate/` as its users run it, on tests of our own over nodes that are this machine."""

import json
import re
import sys
import xml.etree.ElementTree as ET

import pytest
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.ssh_node import Sshd
from tests.unit.helpers.validate_suite import call_pytest as run
from tests.unit.helpers.validate_suite import write_suite

pytestmark = pytest.mark.program
LOCAL = (
    "    n1: {unit: 1, ansible_connection: local}\n    n2: {unit: 2, ansible_connection: local}\n"
)
SUITE = cases(__file__, "suite")
NODE = ("test_node", "test_own_fixture")
RAIL = ("test_rail", "test_parametrized")


@pytest.fixture
def site(tmp_path):
    hosts = {"hosts.yml": "---\nnodes:\n  hosts:\n" + LOCAL}
    return sites.write(tmp_path / "site", {**sites.GOOD, **hosts})


@pytest.fixture
def suite(tmp_path):
    return lambda text=SUITE: write_suite(tmp_path, text)


def names(done):
    return [
        line.split()[0].partition("::")[2] for line in done.stdout.splitlines() if " PASSED" in line
    ]


def test_each_test_runs_for_what_it_asks_for_node_by_node(suite, site):
    ran = names(run(suite(), site, "-v"))
    first = [
        "test_node[n1]",
        "test_rail[n1-rail0]",
        "test_rail[n1-rail1]",
        "test_own_fixture[n1]",
        "test_parametrized[n1-rail0-a]",
        "test_parametrized[n1-rail0-b]",
        "test_parametrized[n1-rail1-a]",
        "test_parametrized[n1-rail1-b]",
    ]
    assert sorted(ran[:8]) == sorted(first)
    assert sorted(ran[8:16]) == sorted(name.replace("n1", "n2") for name in first)
    assert ran[16:] == ["test_fleet"]


@pytest.mark.parametrize(("options", "count"), cases(__file__, "selection"))
def test_selection(suite, site, options, count):
    done = run(suite(), site, "-v", *options)
    assert len([line for line in done.stdout.splitlines() if "PASSED" in line]) == count
    assert done.returncode == (0 if count else 5), done.stdout


def test_site_is_named_by_the_environment(suite, site):
    done = run(suite(), None, RDMAPROV_INVENTORY=str(site))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("options", "says"), cases(__file__, "selection_that_names_no_node_is_a_usage_error")
)
def test_selection_that_names_no_node_is_a_usage_error(suite, site, options, says):
    done = run(suite(), site, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_wrong_site_is_one_line(suite, site):
    (site / "group_vars/all.yml").write_text("---\nfabric_kind: roce\nfabric_mtu_byte: 9000\n")
    done = run(suite(), site)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"Run: rdmaprov check {site}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_no_site_is_one_line(suite):
    done = run(suite(), None, RDMAPROV_INVENTORY="")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Pass --inventory SITE or set RDMAPROV_INVENTORY" in done.stderr


FAILS = cases(__file__, "fails")


def outcomes(junit):
    cases = ET.parse(junit).getroot().iter("testcase")  # noqa: S314 - our own
    return {
        case.get("name"): child.tag for case in cases for child in case if child.tag[0] in "efs"
    }


def test_what_is_no_assertion_is_an_error(suite, site, tmp_path):
    junit = tmp_path / "junit.xml"
    done = run(suite(FAILS), site, f"--junitxml={junit}")
    assert outcomes(junit) == {
        "test_wrong[n2]": "failure",
        "test_untold[n2]": "error",
        "test_of_testinfra[n1]": "error",
        "test_of_testinfra[n2]": "error",
        "test_own_untold[n1]": "error",
        "test_own_untold[n2]": "error",
        "test_skipped[n1]": "skipped",
        "test_skipped[n2]": "skipped",
    }
    lines = done.stdout.splitlines()
    assert "n2: it is wrong [test_wrong]" in lines
    assert "n2: LookupError: there is no such file [test_untold]" in lines
    assert "2 nodes: LookupError: neither is this [test_own_untold]" in lines
    assert "2 nodes: ib: it does not apply [test_skipped]" in lines
    assert "Traceback" not in done.stdout


def test_verbose_prints_each_check_and_no_skip_shows_a_place_in_pytest(suite, site):
    own = "\n\ndef test_own_skipped(own):\n    pytest.skip('nor does this')\n"
    done = run(suite(FAILS + own), site, "-v", "-ra")
    assert "test_wrong[n2] - n2: it is wrong\n" in done.stdout
    assert "LookupError: there is no such file\n" in done.stdout
    assert "by kind" not in done.stdout
    for reason in ("ib: it does not apply", "nor does this"):
        assert re.search(rf"SKIPPED \[2\] \S*test_it.py:\d+: {reason}", done.stdout)
    assert "_pytest" not in done.stdout


def test_last_failed_and_first_failure(suite, site):
    where = suite(FAILS)
    assert "1 failed, 2 passed, 2 skipped, 5 errors" in run(where, site).stdout
    assert "1 failed, 5 errors" in run(where, site, "--lf").stdout
    assert "stopping after 1 failures" in run(where, site, "-x").stdout


ASKS = cases(__file__, "asks")


def test_nodes_in_trouble_are_errors_with_their_reason_and_others_are_judged(suite, tmp_path):
    """Refused, two wrong host keys, sudo with a password, banner, full disk and a stall."""
    sshd = Sshd(tmp_path)
    full = 'ulimit -f 0; export TMPDIR=/nowhere; eval "$SSH_ORIGINAL_COMMAND"'
    stall = 'export STALL=1; eval "$SSH_ORIGINAL_COMMAND"'
    banner = 'echo Welcome; printf "no newline"; eval "$SSH_ORIGINAL_COMMAND"'
    asking = tmp_path / "sudo"
    asking.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    asking.chmod(0o755)
    nodes = {
        "good": sshd.variables("good"),
        "banner": sshd.variables("banner", f"ForceCommand {banner}"),
        "full": sshd.variables("full", f"ForceCommand {full}"),
        "stall": sshd.variables("stall", f"ForceCommand {stall}"),
        "swapped": sshd.variables("swapped", known="other_host_key"),
        "unknown": sshd.variables("unknown", known=""),
        "stranger": {
            **sshd.variables("stranger"),
            "ansible_ssh_private_key_file": str(tmp_path / "other_key"),
        },
        "sudo": {
            **sshd.variables("sudo"),
            "ansible_become": True,
            "ansible_become_exe": str(asking),
        },
        "refused": {"ansible_host": "127.0.0.1", "ansible_port": 1},
        "nameless": {"ansible_host": "rdmaprov.invalid", "ansible_user": "x"},
        "password": {"ansible_password": "secret"},
    }
    hosts = {name: {"unit": index + 1, **own} for index, (name, own) in enumerate(nodes.items())}
    files = {"hosts.yml": "---\n" + json.dumps({"nodes": {"hosts": hosts}})}
    site = sites.write(tmp_path / "site", {**sites.GOOD, **files})
    junit = tmp_path / "junit.xml"
    done = run(suite(ASKS), site, "-v", "--command-timeout=8", f"--junitxml={junit}")
    reasons = {
        "swapped": "its host key has changed",
        "unknown": "its host key is unknown",
        "stranger": "ssh rejects the user or the key",
        "sudo": "sudo requires a password",
        "refused": "ssh: connection refused",
        "nameless": "its name does not resolve",
        "password": "ansible_password is set",
    }
    bad = {f"{test}[{name}]" for name in reasons for test in ("test_answers", "test_is_quick")}
    assert set(outcomes(junit)) == bad | {"test_is_quick[stall]"}
    assert set(outcomes(junit).values()) == {"error"}
    for name, reason in reasons.items():
        assert f"test_answers[{name}] - {name}: {reason}" in done.stdout, name
    assert "stall: no answer in 8 s, nor in 8 s more: test -z" in done.stdout
    assert "secret" not in done.stdout


def test_test_on_the_path_is_asked_live(suite, site, tmp_path):
    text = f"""\
import pytest

RUNS = "echo x >>{tmp_path}/runs; wc -l <{tmp_path}/runs"


def test_kept(host, node):
    assert host.run(RUNS).stdout.strip() == "1"
    assert host.run(RUNS).stdout.strip() == "1"
    assert host.run(RUNS, fresh=True).stdout.strip() == "2"


@pytest.mark.path
def test_live(host, node):
    assert host.run(RUNS).stdout.strip() == "3"
"""
    done = run(suite(text), site, "--hosts=n1")
    assert done.returncode == 0, done.stdout


def test_each_node_costs_one_connection(suite, tmp_path):
    log = tmp_path / "connections"
    counted = f"sh -c 'echo x >>{log}; exec {sys.executable} \"$@\"' --"
    nodes = {f"n{i}": {"unit": i, "ansible_connection": "local"} for i in range(1, 5)}
    hosts = {"nodes": {"hosts": nodes, "vars": {"ansible_python_interpreter": counted}}}
    files = {**sites.GOOD, "hosts.yml": "---\n" + json.dumps(hosts)}
    text = "".join(
        f"def test_{i}(host):\n    assert host.run('echo {i}').stdout == '{i}\\n'\n"
        for i in range(9)
    )
    done = run(suite(text), sites.write(tmp_path / "site", files))
    assert "36 passed" in done.stdout, done.stdout
    assert log.read_text().count("x") == 4
