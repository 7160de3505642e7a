"""`pytest validate/` of a fleet so large that its checks run in a loop of their own."""

from __future__ import annotations

import pytest
from tests.unit.helpers import sites
from tests.unit.helpers.validate_suite import run, write_suite

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
    done = run(write_suite(tmp_path, text), site)
    assert "1 failed, 1197 passed, 2 errors" in done.stdout, done.stdout
    assert "\nn7: wrong [test_name]\n" in done.stdout
    assert "\n2 nodes (n[8,208]): LookupError: why [test_untold]\n" in done.stdout
    assert "stopping after 1 failures" in run(write_suite(tmp_path, text), site, "-x").stdout


ALIVE = """
import gc
import pathlib

import pytest


def pytest_sessionfinish():
    gc.unfreeze()
    gc.collect()
    kinds = pytest.TestReport, pytest.Item
    alive = [each for each in gc.get_objects() if issubclass(type(each), kinds)]
    ids = [each for each in gc.get_objects() if type(each).__name__ == "NodeId"]
    pathlib.Path(__file__).with_name("alive").write_text(f"{len(alive)} {len(ids)}")


def pytest_terminal_summary(terminalreporter):
    # as the plugin of hypothesis does
    for reports in terminalreporter.stats.values():
        assert all(report.__dict__ for report in reports)
"""


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


STASHES = """
import pytest

KEY = pytest.StashKey()


def pytest_collection_modifyitems(items):
    first, second = items[:2]
    assert not {"stash", "_store"} & vars(first).keys()
    first.stash[KEY] = "kept"
    assert (first.stash[KEY], first._store is first.stash) == ("kept", True)
    assert KEY not in second.stash
"""


def test_check_has_a_stash_of_its_own_once_it_is_asked_for(tmp_path):
    where = write_suite(tmp_path, "def test_fine(node):\n    pass\n")
    with (where / "conftest.py").open("a") as opened:
        opened.write(STASHES)
    done = run(where, large_site(tmp_path, 20))
    assert "20 passed" in done.stdout, done.stdout + done.stderr


def test_large_fleet_may_have_subtests(tmp_path):
    text = (
        "def test_parts(subtests, node):\n"
        "    with subtests.test(msg='part'):\n        assert node.name != 'n7'\n\n\n"
        "def test_fine(node):\n    pass\n"
    )
    done = run(write_suite(tmp_path, text), large_site(tmp_path, 20))
    assert done.returncode == 1
    assert "2 failed, 39 passed" in done.stdout, done.stdout


def test_large_fleet_is_judged_without_pytest_s_cache(tmp_path):
    suite = write_suite(tmp_path, "def test_fine(node):\n    pass\n")
    done = run(suite, large_site(tmp_path), "-p", "no:cacheprovider")
    assert "300 passed" in done.stdout, done.stdout + done.stderr
