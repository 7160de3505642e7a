"""Metrics of a site: the reference parser reads them, their names stay, the file is whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from tests.report import runs
from tests.unit.helpers import fleet_runs

from rdmaprov.cli import cli, publish, run, session
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.answer import read_history
from rdmaprov.history.certificate_facts import UNTIL
from rdmaprov.history.digest import Fact
from rdmaprov.history.metrics import Gauge, metrics_text, openmetrics_text
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.files import NotWritten, not_written
from rdmaprov.runs.masks import Mask

SITE = "inventory/prod"
DASHBOARD = Path(__file__).parents[3] / "docs/grafana.json"
# Names, labels: dashboards and alerts of users have them. Add, and never rename.
NAMES = {
    "rdmaprov_info": {"site", "version"},
    "rdmaprov_run_state": {"site", "verb", "state"},
    "rdmaprov_run_timestamp_seconds": {"site", "verb"},
    "rdmaprov_run_duration_seconds": {"site", "verb"},
    "rdmaprov_run_findings": {"site", "verb"},
    "rdmaprov_unreadable_runs": {"site"},
    "rdmaprov_node_state": {"site", "node", "verb", "state"},
    "rdmaprov_node_last_proof_timestamp_seconds": {"site", "node", "verb"},
    "rdmaprov_stage_state": {"site", "stage", "state"},
    "rdmaprov_bus_bandwidth_bytes_per_second": {"site", "plane", "message_bytes"},
    "rdmaprov_rail_sent_bytes_per_second": {"site", "node", "rail"},
    "rdmaprov_measurements_worse": {"site"},
    "rdmaprov_certificate_expiry_timestamp_seconds": {"site"},
}
STAGE = {
    "name": "pairs",
    "state": "passed",
    "seconds": 1,
    "said": "",
    "findings": 0,
    "left_out": {},
    "numbers": [],
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "rdmaprov.history.read_run.certificate_facts",
        lambda path, _names: [Fact("", UNTIL, "2026-06-01T00:00:00Z")] if path.exists() else [],
    )
    for number in (1, 2):
        fleet_runs.keep(tmp_path, fleet_runs.acceptance(number) | {"stages": [STAGE]})
    kept = fleet_runs.keep(tmp_path, runs.validated(4))
    (kept / "certificate.json").touch()
    return tmp_path


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples of each metric, by the reference parsers of both formats."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus_client")
    plain = pytest.importorskip("prometheus_client.parser")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        found[family.name] = [(each.labels, each.value) for each in family.samples]
        assert {each.name for each in family.samples} == {family.name}
        assert {each.timestamp for each in family.samples} == {None}
    same = {
        family.name: [(each.labels, each.value) for each in family.samples]
        for family in plain.text_string_to_metric_families(text)
    }
    assert same == found
    return found


@pytest.mark.usefixtures("place")
def test_reference_parsers_read_the_metrics():
    assert run(["history", SITE, "--metrics", "m.prom"]) == ExitCode.OK
    found = samples(Path("m.prom").read_text())
    assert {name: set(own[0][0]) for name, own in found.items()} == NAMES
    state = {
        (own["node"], own["state"]): value
        for own, value in found["rdmaprov_node_state"]
        if own["verb"] == "validate"
    }
    assert (state["gpu1", "failed"], state["gpu1", "passed"], state["gpu2", "unknown"]) == (1, 0, 1)
    ended = {own["verb"]: value for own, value in found["rdmaprov_run_timestamp_seconds"]}
    proof = {
        own["node"]: value
        for own, value in found["rdmaprov_node_last_proof_timestamp_seconds"]
        if own["verb"] == "accept"
    }
    assert proof == dict.fromkeys(("gpu1", "gpu2", "gpu3", "gpu4"), ended["accept"])
    assert all(1e10 < value < 1e11 for _, value in found["rdmaprov_rail_sent_bytes_per_second"])
    assert len(found["rdmaprov_rail_sent_bytes_per_second"]) == 4 * 8


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("now", "says"), [(1780000000, "valid until"), (1790000000, "expired on")])
def test_newest_certificate_is_named_with_its_end(now, says, capsys, monkeypatch):
    monkeypatch.setattr("rdmaprov.history.answer.time.time", lambda: now)
    run(["history", SITE])
    assert f"newest certificate: {says} 2026-0" in capsys.readouterr().out


def test_names_and_labels_are_those_that_users_know(place):
    text = metrics_text(read_history(Path(SITE), place / "runs"))
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {line.partition("{")[0]: set(re.findall(r'(\w+)="', line)) for line in lines}
    assert found == NAMES
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("odd", ['a"b', "a\\b", "a\nb", 'a\\"\n', "ü{}=,", ""])
def test_label_is_escaped(odd):
    gauge = Gauge("x", "", "Words.")
    gauge.add(0.25, node=odd)
    assert samples(openmetrics_text([gauge])) == {"x": [({"node": odd}, 0.25)]}


def test_node_that_left_the_site_has_no_metric(place):
    data = fleet_runs.acceptance(9)
    del data["nodes"]["gpu4"]
    limited = fleet_runs.acceptance(10)
    limited["nodes"] = {"gpu1": limited["nodes"]["gpu1"]}
    fleet_runs.keep(place, data | {"limit": None})
    fleet_runs.keep(place, limited | {"limit": "gpu1"})
    found = read_history(Path(SITE), place / "runs")
    assert set(found.nodes) == {"gpu1", "gpu2", "gpu3"}


def test_file_is_replaced_whole_and_readable_by_others(place):
    file = place / "m.prom"
    file.write_text("old")
    with file.open() as reader:
        run(["history", SITE, "--metrics", str(file)])
        assert reader.read() == "old"
    assert file.stat().st_mode & 0o044
    assert sorted(path.name for path in place.iterdir()) == ["m.prom", "runs"]


def test_file_that_cannot_be_written_is_unknown(place, capsys):
    (place / "m.prom").mkdir()
    assert run(["history", SITE, "--metrics", "m.prom/m/m"]) == ExitCode.UNKNOWN
    assert "cannot write m.prom/m/m: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["accept", "apply", "history", "plan", "validate"])
def test_verbs_that_make_runs_have_the_option(verb):
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    options = {name for each in command.params for name in each.opts}
    assert {"--metrics", "--notify", "--notify-secret"} <= options


def concluded(file):
    """Conclude a run as every verb does, with --metrics; return its directory."""
    data = runs.validated(4) | {"started": fleet_runs.started(20).isoformat()}
    with click.Context(cli) as context, RunDirectory("validate", Mask(())) as directory:
        context.meta[publish._KEYS["metrics"]] = file
        text = directory.write_results(data)
        screen = session.screen_for(None, Mask(()))
        session.conclude(directory, text, [], screen, None)
        assert not file.exists()  # told last, when locks are gone
        if missed := publish.publish_now():
            raise not_written(missed, "")
    return directory


def test_run_of_a_verb_writes_the_metrics_of_its_site(place, capsys):
    concluded(place / "m.prom")
    assert f"metrics: {place / 'm.prom'}" in capsys.readouterr().out
    name = 'rdmaprov_run_timestamp_seconds{site="prod",verb="validate"}'
    lines = (place / "m.prom").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(name))
    assert float(line.split()[-1]) == fleet_runs.started(20).timestamp() + 75


def test_run_of_a_verb_stands_if_its_metrics_cannot_be_written(place):
    with pytest.raises(NotWritten, match=r"cannot write .*m\.prom") as caught:
        concluded(place / "absent" / "m.prom")
    assert caught.value.exit_code == ExitCode.UNKNOWN


def test_dashboard_asks_for_metrics_that_exist():
    data = json.loads(DASHBOARD.read_text())
    asked = [each["expr"] for panel in data["panels"] for each in panel["targets"]]
    names = set(re.findall(r"rdmaprov_\w+", " ".join(asked)))
    assert names <= NAMES.keys()
    assert NAMES.keys() - names <= {
        "rdmaprov_info",
        "rdmaprov_run_duration_seconds",
        "rdmaprov_unreadable_runs",
    }
    for expression in asked:
        name = re.search(r"rdmaprov_\w+", expression)
        assert name is not None
        labels = set(re.findall(r"(\w+)!?=~?\"", expression))
        labels |= set(re.findall(r"by \((\w+)\)", expression))
        assert labels <= NAMES[name[0]]
