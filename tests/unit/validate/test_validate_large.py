"""`pytest validate/` of a fleet so large that it runs in a loop of its own, and of the gate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.site_runs import keep_validated
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.validate_suite import call_pytest, run, write_suite

pytestmark = pytest.mark.program


def large_site(tmp_path, many=300):
    rows = [f"    n{i}: {{unit: {i}, ansible_connection: local}}\n" for i in range(1, many + 1)]
    hosts = {
        "hosts.yml": "---\nnodes:\n  hosts:\n" + "".join(rows),
        "group_vars/all.yml": sites.GOOD["group_vars/all.yml"]
        .replace("198.18.0.{{ unit }}/24", "10.0.{{ unit // 200 }}.{{ unit % 200 + 1 }}/16")
        .replace("198.18.1.{{ unit }}/24", "10.1.{{ unit // 200 }}.{{ unit % 200 + 1 }}/16"),
    }
    return sites.write(tmp_path / "site", {**sites.GOOD, **hosts})


def test_large_fleet_is_judged_in_a_loop_of_its_own(tmp_path):
    site = large_site(tmp_path)
    command = f"echo x >>{tmp_path}/runs; wc -l <{tmp_path}/runs"
    text = (
        "import pytest\n\n\n@pytest.mark.path\ndef test_live(host, node):\n"
        f"    if node.name == 'n7':\n        assert host.run({command!r}).stdout.strip() == '1'\n"
        f"        assert host.run({command!r}).stdout.strip() == '2'\n\n\n"
        "def test_name(node):\n    assert node.name != 'n7', f'{node.name}: wrong'\n\n\n"
        "def test_untold(rail):\n    assert rail.index < 2 or 1 / 0\n"
        "    if rail.index and rail.address.ip.packed[3] == 9:\n        raise LookupError('why')\n"
    )
    done = call_pytest(write_suite(tmp_path, text), site)
    assert "1 failed, 1197 passed, 2 errors" in done.stdout, done.stdout
    assert "\nn7: wrong [test_name]\n" in done.stdout
    assert "\n2 nodes (n[8,208]): LookupError: why [test_untold]\n" in done.stdout
    assert (
        "stopping after 1 failures" in call_pytest(write_suite(tmp_path, text), site, "-x").stdout
    )


ALIVE = cases(__file__, "alive")


def test_large_fleet_keeps_neither_checks_nor_reports(tmp_path):
    text = (
        "import gc\nimport pytest\n\n\n"
        "class Cycle:\n    def __init__(self):\n        self.me = self\n\n\n"
        "def test_wrong(node):\n    assert 0, f'{node.name}: wrong'\n\n\n"
        "def test_skipped(rail):\n    pytest.skip('why')\n\n\n"
        "def test_cycles_are_collected_meanwhile(node):\n"
        "    for _ in range(200):\n        Cycle()\n"
        "    assert sum(type(each) is Cycle for each in gc.get_objects()) < 20_000\n"
    )
    where = write_suite(tmp_path, text)
    with (where / "conftest.py").open("a") as opened:
        opened.write(ALIVE)
    done = run(where, large_site(tmp_path))
    assert "300 failed, 300 passed, 600 skipped" in done.stdout, done.stdout
    assert "\n300 nodes: NODE: wrong [test_wrong]\n" in done.stdout
    alive, ids = map(int, (where / "alive").read_text().split())
    assert alive < 10
    assert ids < 310  # from pytest 9.1 on, objects; --lf runs those that failed again


STASHES = cases(__file__, "stashes")


def test_check_has_a_stash_of_its_own_once_it_is_asked_for(tmp_path):
    where = write_suite(tmp_path, "def test_fine(node):\n    pass\n")
    with (where / "conftest.py").open("a") as opened:
        opened.write(STASHES)
    done = run(where, large_site(tmp_path, 20))
    assert "20 passed" in done.stdout, done.stdout + done.stderr


SORTS = cases(__file__, "sorts")
OWN = "\n\ndef test_own(tmp_path, node):\n    pass\n"


@pytest.mark.parametrize(("more", "sorts"), [("", False), (OWN, True)], ids=["checks", "more"])
def test_checks_are_not_sorted_by_fixtures_that_they_do_not_have(tmp_path, more, sorts):
    where = write_suite(tmp_path, f"def test_fine(node):\n    pass\n{more}")
    with (where / "conftest.py").open("a") as opened:
        opened.write(SORTS)
    done = run(where, large_site(tmp_path, 20), "-s")
    assert f"{40 if more else 20} passed" in done.stdout, done.stdout + done.stderr
    assert ("sorts " in done.stdout) == sorts


def test_large_fleet_may_have_subtests(tmp_path):
    text = (
        "def test_parts(subtests, node):\n"
        "    with subtests.test(msg='part'):\n        assert node.name != 'n7'\n\n\n"
        "def test_fine(node):\n    pass\n"
    )
    done = call_pytest(write_suite(tmp_path, text), large_site(tmp_path, 20))
    assert done.returncode == 1
    assert "2 failed, 39 passed" in done.stdout, done.stdout


def test_large_fleet_is_judged_without_pytest_s_cache(tmp_path):
    suite = write_suite(tmp_path, "def test_fine(node):\n    pass\n")
    done = call_pytest(suite, large_site(tmp_path), "-p", "no:cacheprovider")
    assert "300 passed" in done.stdout, done.stdout + done.stderr


REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def site(tmp_path):
    files = {**GOOD, "group_vars/nodes.yml": "ansible_host: 127.0.0.1\nansible_port: 9\n"}
    keep_validated(tmp_path, tmp_path / "site", ("n1", "n2"))
    return write(tmp_path / "site", files)


def suite(site, *words):
    # Without this Python's own options, such as those of a run with several workers.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", f"--config-file={REPOSITORY}/validate/pytest.ini",
         f"--rootdir={REPOSITORY}/validate", "-p", "no:cacheprovider", f"--inventory={site}",
         "--hosts=all", *words],
        cwd=site.parent, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_it_runs_only_when_it_is_asked_for(site):
    everything = suite(site, str(REPOSITORY / "validate"), "--collect-only", "-q")
    assert "test_mtu.py::" in everything.stdout
    assert "test_all_reduce" not in everything.stdout
    chosen = suite(site, str(REPOSITORY / "validate"), "--collect-only", "-q", "-m", "acceptance")
    assert "test_acceptance.py::test_all_reduce" in chosen.stdout
    assert "test_mtu.py::" not in chosen.stdout


def test_nodes_that_do_not_answer_are_an_error_and_no_failure(site):
    done = suite(site, str(REPOSITORY / "validate" / "test_acceptance.py"))
    assert "1 error" in done.stdout, done.stdout + done.stderr
    assert "n1: unreachable: ssh: connection refused" in done.stdout
    assert "(and 1 more)" in done.stdout


def test_state_comes_first_in_one_run(site):
    # One test of the same run that has failed of n1 is enough.
    other = site.parent / "test_other.py"
    other.write_text(
        "import pytest\npytestmark = pytest.mark.state\n"
        "def test_setting(node):\n    assert node.name != 'n1', 'it is wrong'\n"
    )
    place = str(REPOSITORY / "validate" / "test_acceptance.py")
    done = suite(site, str(other), place, "-p", "rdmaprov.validate.plugin")
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "n1: unknown: not measured:" in done.stdout
