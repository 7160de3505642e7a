"""Half a validate says that it is one: of which node, and of the fleet."""

import json
import sys
from pathlib import Path

import pytest
from tests.program import call
from tests.unit.helpers import sites
from tests.unit.helpers.shell import execute

SUITE = Path(__file__).parents[2] / "validate"
OWN = Path("/proc/sys/kernel/random/boot_id")
HOSTS = (
    "---\nnodes:\n  hosts:\n"
    "    n1: {unit: 1, ansible_connection: local}\n    n2: {unit: 2, ansible_connection: local}\n"
)


@pytest.fixture
def place(tmp_path):
    sites.write(tmp_path / "site", {**sites.GOOD, "hosts.yml": HOSTS})
    return tmp_path


def validated(place, *words):
    """Return of a run what is complete: each node, the fleet, and what was left out."""
    done = call("validate", "site", "--command-timeout", "20", *words, cwd=place)
    newest = max(path for path in (place / "runs").iterdir() if path.name != ".pytest_cache")
    data = json.loads((newest / "results.json").read_text())
    boots = {name: node["boot_id"] for name, node in data["nodes"].items() if node["boot_id"]}
    assert set(boots.values()) <= {OWN.read_text().strip()}, done.stdout
    nodes = {name for name, node in data["nodes"].items() if node["complete"]}
    assert nodes <= boots.keys()
    return nodes, data["complete"]["fleet"], data["complete"]["left_out"]


def test_run_of_everything_is_complete(place):
    assert validated(place) == ({"n1", "n2"}, True, [])


def test_plain_pytest_keeps_the_same_results(place):
    words = ["--inventory=site", "--command-timeout=20", "-p", "no:cacheprovider", "-q"]
    plain = [sys.executable, "-m", "pytest", str(SUITE), "--hosts=all", *words]
    done = execute(plain, cwd=place)
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


def test_limited_run_is_complete_for_its_node_and_not_for_the_fleet(place):
    assert validated(place, "--limit", "n1") == ({"n1"}, False, [])


@pytest.mark.parametrize(
    ("words", "left_out"),
    [(("-k", "hugepages"), ["-k hugepages"]), (("-m", "state"), ["-m state"])],
)
def test_run_of_some_checks_is_complete_for_nobody(place, words, left_out):
    assert validated(place, *words) == (set(), False, left_out)


def test_run_of_some_files_is_complete_for_nobody(place):
    nodes, fleet, left_out = validated(place, "test_hugepages.py")
    assert (nodes, fleet, [Path(each).name for each in left_out]) == (
        set(),
        False,
        ["test_hugepages.py"],
    )


def test_run_that_ends_at_its_first_failure_is_complete_for_the_nodes_before(place):
    nodes, fleet, left_out = validated(place, "-x")
    assert ("n2" in nodes, fleet, left_out) == (False, False, [])
