"""Which commit of a site a run had."""

from datetime import UTC, datetime

import pytest
from tests.unit.helpers.accept_runs import healthy
from tests.unit.helpers.shell import execute

from rdmaprov.acceptance.result import GateResult
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.envelope import CHANGED, Head, results_document, site_commit


def git(place, *words):
    who = ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "commit.gpgsign=false"]
    return execute(["git", *who, "-C", place, *words], check=True).stdout.strip()


@pytest.fixture
def site(tmp_path):
    place = tmp_path / "inventory/dc1"
    place.mkdir(parents=True)
    (place / "hosts.yml").write_text("all: {}\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return place


def test_commit_of_a_site_is_in_the_results(site):
    now = datetime.now(UTC)
    data = results_document(Head("plan", site, None, now), now, ExitCode.OK, {}, {})
    assert data["commit"] == git(site, "rev-parse", "HEAD")


def test_site_that_differs_from_its_commit_says_so(site):
    (site / "host_vars").mkdir()
    (site / "host_vars/n1.yml").write_text("a: 1\n")
    assert site_commit(site) == git(site, "rev-parse", "HEAD") + CHANGED


def test_what_changes_outside_of_the_site_does_not_count(site):
    (site.parents[1] / "notes").write_text("x")
    assert site_commit(site) == git(site, "rev-parse", "HEAD")


def test_program_of_the_repository_s_configuration_does_not_run(site):
    ran = site.parents[1] / "ran"
    git(site, "config", "core.fsmonitor", f"touch {ran};")
    site_commit(site)
    assert not ran.exists()


@pytest.mark.parametrize("kind", ["no repository", "no directory", "no git"])
def test_commit_is_empty_where_nothing_says_it(kind, site, tmp_path_factory, monkeypatch):
    if kind == "no git":
        monkeypatch.setenv("PATH", "/nowhere")
        assert site_commit(site) == ""
        return
    place = tmp_path_factory.mktemp("plain")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(place.parent))
    assert site_commit(place if kind == "no repository" else place / "absent") == ""


def test_versions_of_a_node_are_in_the_results_if_it_said_them():
    ran = healthy()
    names = ran.job.nodes
    versions = {"kernel": "6.8.0-45", "nvidia": "570.86.15"}
    identity = {
        "versions": versions,
        "machine": {},
        "gpus": [],
        "rails": [{"firmware": "28.43.1014"}, {"firmware": ""}],
    }
    facts: dict[str, dict[str, object]] = {name: {"torch": {"torch": "2.7.0"}} for name in names}
    facts[names[0]]["identity"] = identity
    nodes = GateResult(names, "gloo", facts=facts, ran=ran).nodes_as_data()
    assert nodes[names[0]]["versions"] == versions
    assert nodes[names[0]]["firmware"] == ["28.43.1014", ""]
    assert "versions" not in nodes[names[1]]
