"""A shell completes hosts and groups, and nothing of a site is run for it."""

import json
import os
import sys
from typing import Any

import pytest
from tests.cli.hostile_sites import Hostile
from tests.program import call
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.shell import execute

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode

SCRIPT = cases(__file__, "script")
HOSTS = cases(__file__, "hosts")


def completed(place, before="", verb="validate"):
    words = f"rdmaprov {verb} site --limit {before}"
    asked: Any = {"COMP_WORDS": words, "COMP_CWORD": "4", "_RDMAPROV_COMPLETE": "bash_complete"}
    done = call(cwd=place, **asked)
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.split()]


def kept(place, name, nodes, **head):
    found = {
        "schema": 1,
        "site": "site",
        "limit": None,
        "nodes": {each: {} for each in nodes},
        **head,
    }
    (place / "runs" / name).mkdir(parents=True)
    (place / "runs" / name / "results.json").write_text(json.dumps(found))


@pytest.fixture
def script(tmp_path):
    canary = tmp_path / "canary"
    site = Hostile("", {"hosts.yml": None, "hosts.sh": SCRIPT.format(canary=canary)})
    site.write(tmp_path / "site", canary)
    return tmp_path


def test_script_of_a_site_is_not_run(script):
    assert completed(script) == []
    assert not (script / "canary").exists()
    call("check", "site", cwd=script)
    assert (script / "canary").exists(), "the script leaves no mark at all"


def test_hosts_are_those_of_the_newest_whole_run(script):
    kept(script, "20261101-101010-apply", ["n1"])
    kept(script, "20261102-101010-validate", ["n1", "n2", "n3", "x; id", "-x"])
    kept(script, "20261103-101010-accept", ["n1"], limit="n1")
    kept(script, "20261103-101011-validate", ["n2"], hosts="n2")
    kept(script, "20261104-101010-apply", ["other"], site="site2")
    kept(script, "20261105-101010-apply", ["odd"], schema=9)
    (script / "runs" / "20261106-101010-apply").mkdir()
    assert completed(script) == ["n1", "n2", "n3"]
    assert completed(script, "n1,!n2", "record") == ["n1,!n2"]
    assert not (script / "canary").exists()


def test_run_with_a_limit_is_better_than_none(script):
    kept(script, "20261101-101010-accept", ["n1"], limit="n1")
    kept(script, "20261102-101010-accept", ["n2"], limit="n2")
    assert completed(script) == ["n2"]


def test_yaml_is_read_as_data(tmp_path):
    canary = tmp_path / "canary"
    text = HOSTS.replace("{canary}", str(canary))
    sites.write(tmp_path / "site", {"hosts.yml": text, "x.yml": "plugin: constructed\ng: {}\n"})
    assert completed(tmp_path) == [
        *("all", "gpu-1-01", "gpu-1-02", "gpu-1-03", "login", "n1", "rack1")
    ]
    assert not canary.exists()


HEAVY = (
    *("ansible", "ansible_runner", "asyncio", "ClusterShell", "jinja2", "matplotlib", "numpy"),
    *("pytest", "rich", "ruamel", "testinfra", "yaml"),
)
ASKED = f"""
import sys
from typing import Any
{{}}
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("code", "environment"),
    cases(__file__, "what_only_shows_options_imports_nothing_heavy"),
    ids=["help of every command", "completion of a verb"],
)
def test_what_only_shows_options_imports_nothing_heavy(tmp_path, code, environment):
    done = execute(
        [sys.executable, "-c", ASKED.format(code)],
        cwd=tmp_path,
        env={**os.environ, **environment},
        check=True,
    )
    assert done.stderr.strip() == "[]"


def test_option_in_the_site_s_place_is_named(capsys):
    assert run(["validate", "-q", "dead"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "the site must come before -q" in error
    assert "hint:  Run: rdmaprov validate SITE -q" in error
