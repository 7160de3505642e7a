"""`rdmaprov validate`: what it keeps, says and exits with, and what half of one says it is."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.program import call
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.shell import execute

from rdmaprov.exit_codes import ExitCode

HOSTS = (
    "---\nnodes:\n  vars: {ansible_become_pass: hunter22}\n  hosts:\n"
    "    n1: {unit: 1, ansible_connection: local}\n    n2: {unit: 2, ansible_connection: local}\n"
)
TESTS = cases(__file__, "tests")
FINE = "not slow and not first and not untold"


@pytest.fixture
def place(tmp_path):
    sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": HOSTS})
    (tmp_path / "test_own.py").write_text(TESTS)
    return tmp_path


def validate(place, *words, **environment):
    return call("validate", "site", "test_own.py", *words, cwd=place, COLUMNS="300", **environment)


def kept(place):
    (directory,) = (path for path in (place / "runs").iterdir() if path.name != ".pytest_cache")
    return directory


@pytest.mark.parametrize(
    ("words", "code", "states"),
    [
        (["-k", FINE], ExitCode.OK, ["passed", "passed"]),
        (["-k", FINE, "--limit", "n2"], ExitCode.OK, ["passed"]),
        (["-k", "first or untold"], ExitCode.FAILED, ["passed", "failed"]),
        (["-k", "name or untold"], ExitCode.UNKNOWN, ["passed", "unknown"]),
        (["-k", FINE, "--hosts", "local://?node=n2"], ExitCode.OK, ["unknown", "passed"]),
    ],
)
def test_exit_code_and_results(place, words, code, states):
    done = validate(place, *words)
    assert done.returncode == code, done.stdout + done.stderr
    directory = kept(place)
    results = json.loads((directory / "results.json").read_text())
    assert (results["schema"], results["verb"], results["exit_code"]) == (1, "validate", code)
    assert [node["state"] for node in results["nodes"].values()] == states
    assert f"results: runs/{directory.name}" in done.stdout
    assert done.stdout.endswith(f"report: runs/{directory.name}/report.html\n")
    assert (directory / "junit.xml").read_text().count("<testcase") == sum(
        results["counts"].values()
    )


@pytest.mark.parametrize(
    ("own", "code", "says"),
    [
        ("def test_skipped(node):\n    pytest.skip('not here')\n", ExitCode.UNKNOWN, "2 unknown"),
        (
            "def test_skipped(node):\n    node.name == 'n1' or pytest.skip('not here')\n",
            ExitCode.UNKNOWN,
            "1 passed, 1 unknown (n2)",
        ),
        ("def test_fleet(fleet, hosts):\n    assert fleet.nodes\n", ExitCode.OK, "2 passed"),
        ("def test_fleet(fleet):\n    pytest.skip('one')\n", ExitCode.UNKNOWN, "2 unknown"),
    ],
)
def test_node_that_nothing_passed_on_is_unknown(place, own, code, says):
    (place / "test_own.py").write_text(f"import pytest\n\n\n{own}")
    done = validate(place)
    assert done.returncode == code, done.stdout + done.stderr
    assert f"2 nodes: {says}" in done.stdout


def test_summary_tells_unreachable_from_unknown_and_groups_failures(place):
    refused = "{unit: 3, ansible_host: 127.0.0.1, ansible_port: 1}"
    (place / "site/hosts.yml").write_text(f"{HOSTS}    n3: {refused}\n")
    own = (
        "import pytest\n\n\ndef test_mtu(node):\n    assert 0, f'{node.name} ens1: MTU is 1500'\n"
        "\n\ndef test_lost(host):\n    assert host.run('true').rc == 0\n"
        "\n\ndef test_untold(node):\n    assert node.name != 'n2' or 1 / 0\n"
        "\n\ndef test_skipped(node):\n    pytest.skip('not here')\n"
    )
    (place / "test_own.py").write_text(own)
    done = validate(place, "-k", "not mtu")
    summary = "3 nodes: 1 passed, 1 unreachable (n3), 1 unknown (n2); "
    assert f"{summary}4 checks passed, 2 unknown, 3 skipped (not verified)\n" in done.stdout
    assert "\n3 nodes: not here [test_skipped]\n" in done.stdout
    assert "SKIPPED" not in done.stdout
    assert "3 nodes: NODE ens1: MTU is 1500 [test_mtu]\n" in validate(place).stdout


def test_run_is_kept_without_secrets_and_for_this_user_only(place):
    validate(place, "-k", "first")
    directory = kept(place)
    for name in ("results.json", "junit.xml", "logs/pytest.log", "report.html"):
        text = (directory / name).read_text()
        assert "hunter22" not in text
        assert "wrong" in text
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("words", [[], ["-s"]])
def test_json_on_standard_output_is_alone(place, words):
    own = "import os\n\n\ndef test_says(node):\n    print('said')\n    os.system('echo echoed')\n"
    (place / "test_own.py").write_text(own)
    done = validate(place, "--json", "-", *words)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert json.loads(done.stdout) == json.loads((kept(place) / "results.json").read_text())
    assert "2 nodes: 2 passed; 2 checks passed" in done.stderr
    assert "echoed" in done.stderr  # on the file descriptor, by another program


def test_wrong_site_is_said_as_by_check(place):
    (place / "site/group_vars/all.yml").write_text("---\nfabric_kind: roce\n")
    done = validate(place)
    assert done.returncode == ExitCode.INVALID_SITE
    assert "fabric_link_gbps: is missing" in done.stdout
    assert not (place / "runs").exists()


@pytest.mark.parametrize("words", [["-k", "nothing_like_it"], ["--no-such-option"]])
def test_run_without_a_test_is_not_green(place, words):
    assert validate(place, *words).returncode == ExitCode.USAGE


def test_interrupt_ends_the_run_and_keeps_what_was_found(place):
    command = [sys.executable, "-m", "rdmaprov", "validate", "site", "test_own.py", "-v"]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    for line in process.stdout:
        if "test_untold[n1]" in line:
            break
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "not all checks were run: interrupted" in rest
    assert "KeyboardInterrupt" not in rest
    assert "interrupt.py" not in rest
    results = json.loads((kept(place) / "results.json").read_text())
    assert results["interrupted"] is True
    assert results["nodes"]["n1"]["passed"] >= 2
    assert results["nodes"]["n2"]["state"] != "passed"


def test_run_that_ends_at_its_first_failure_proves_no_node(place):
    done = validate(place, "-x", "-k", "name or first")
    assert done.returncode == ExitCode.FAILED
    assert "not all checks were run: stopping after 1 failures" in done.stdout
    nodes = json.loads((kept(place) / "results.json").read_text())["nodes"]
    assert "passed" not in [node["state"] for node in nodes.values()]


def test_workers_of_xdist_are_refused(place):
    done = validate(place, "-n", "2", "-k", FINE)
    assert done.returncode == ExitCode.USAGE
    assert "-n is gone: all nodes are asked at the same time already" in done.stdout + done.stderr


SUITE = Path(__file__).parents[2] / "validate"
OWN = Path("/proc/sys/kernel/random/boot_id")


def validated(place, *words):
    done = call("validate", "site", "--command-timeout", "20", *words, cwd=place)
    newest = max(path for path in (place / "runs").iterdir() if path.name != ".pytest_cache")
    data = json.loads((newest / "results.json").read_text())
    boots = {name: node["boot_id"] for name, node in data["nodes"].items() if node["boot_id"]}
    assert set(boots.values()) <= {OWN.read_text().strip()}, done.stdout
    nodes = {name for name, node in data["nodes"].items() if node["complete"]}
    assert nodes <= boots.keys()
    return nodes, data["complete"]["fleet"], data["complete"]["left_out"]


@pytest.mark.parametrize(
    ("words", "nodes", "fleet", "left_out"),
    [
        ((), {"n1", "n2"}, True, []),
        (("--limit", "n1"), {"n1"}, False, []),
        (("-k", "hugepages"), set(), False, ["-k hugepages"]),
        (("-m", "state"), set(), False, ["-m state"]),
        (("test_hugepages.py",), set(), False, [str(SUITE / "test_hugepages.py")]),
    ],
)
def test_run_is_complete_for_nodes_it_left_no_check_out_of(place, words, nodes, fleet, left_out):
    assert validated(place, *words) == (nodes, fleet, left_out)


def test_plain_pytest_keeps_the_same_results(place):
    words = ["--inventory=site", "--command-timeout=20", "-p", "no:cacheprovider", "-q"]
    done = execute([sys.executable, "-m", "pytest", str(SUITE), "--hosts=all", *words], cwd=place)
    (kept,) = (place / "runs").iterdir()
    assert f"results: runs/{kept.name}\n" in done.stdout
    own = json.loads((kept / "results.json").read_text())
    call("validate", "site", "--command-timeout", "20", cwd=place)
    (other,) = set((place / "runs").glob("2*")) - {kept}
    data = json.loads((other / "results.json").read_text())
    assert own.keys() == data.keys()
    for part in ("verb", "site", "limit", "hosts", "verdict", "counts", "fleet", "complete"):
        assert own[part] == data[part], part
    for node in (*own["nodes"].values(), *data["nodes"].values()):
        assert node.pop("uptime_s") > 0
    assert own["nodes"] == data["nodes"]
    tests = [{each["test"].rpartition("/")[2] for each in of["checks"]} for of in (own, data)]
    assert tests[0] == tests[1]


def test_run_that_ends_at_its_first_failure_is_complete_for_the_nodes_before(place):
    nodes, fleet, left_out = validated(place, "-x")
    assert ("n2" in nodes, fleet, left_out) == (False, False, [])
