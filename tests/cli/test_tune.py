"""`rdmaprov tune` on a made-up fleet: its answer, its files, its exit codes."""

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.program import ended_here
from tests.unit.tuner.test_tuner import PAIRS, Faster

from rdmaprov.cli import session, tune_run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.read_run import read_run
from rdmaprov.report import read
from rdmaprov.runs.masks import Mask
from rdmaprov.tuner.settings import NcclSetting

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(json.loads((ROOT / "docs/results.schema.json").read_text()))
SHAPE = FleetShape(4, gpus=4, rails=4, per_leaf=4)
BUFFERS = NcclSetting("buffers of 8 MiB", {"NCCL_BUFFSIZE": "8388608"})
FASTER_PAIRS = ("NCCL_IB_QPS_PER_CONNECTION", "4")


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fleet = MadeUpFleet(SHAPE, None, 0, 0.03)
    place = SimpleNamespace(fleet=fleet, runner=MadeUpRunner(fleet), nodes=site_nodes(SHAPE))

    @contextmanager
    def prepare(_site, _limit, json_file, _passwords):
        ready = SimpleNamespace(
            fleet=SimpleNamespace(nodes=place.nodes),
            nodes=[node.name for node in place.nodes],
            given=SimpleNamespace(become=""),
            mask=Mask([]),
            waivers=[],
            screen=session.screen_for(json_file, Mask([])),
        )
        yield ready

    @contextmanager
    def open_nodes(*_given):
        yield MadeUpNodes(fleet)

    monkeypatch.setattr(session, "prepare", prepare)
    monkeypatch.setattr(tune_run, "open_nodes", open_nodes)
    monkeypatch.setattr(tune_run, "Launcher", lambda _connection: place.runner)
    monkeypatch.setattr(tune_run, "usual_settings", lambda: (PAIRS, BUFFERS))
    return place


def tune(capsys, *words):
    return ended_here(capsys, "tune", "site", "--sizes", "1M:512M", *words)


@pytest.mark.usefixtures("made_up")
def test_nothing_better_leaves_the_defaults(capsys):
    code, out, _ = tune(capsys)
    assert code == ExitCode.OK
    assert "leave the defaults: nothing is better" in out
    assert "job 1: " in out


def test_gain_of_the_fleet_is_lines_for_the_site_and_json_has_all_trials(made_up, capsys):
    made_up.runner = Faster(made_up.runner, FASTER_PAIRS, 0, 1.5)
    code, out, error = tune(capsys, "--json", "-")
    found = json.loads(out)
    assert code == found["exit_code"] == ExitCode.OK
    assert {gain["setting"] for gain in found["of_fleet"]} == {PAIRS.name}
    assert len(found["trials"]) == found["jobs"]
    assert '  NCCL_IB_QPS_PER_CONNECTION: "4"' in error


def test_a_run_is_kept_with_its_page_as_every_verb_s(made_up, capsys, tmp_path):
    made_up.runner = Faster(made_up.runner, FASTER_PAIRS, 0, 1.5)
    _, out, _ = tune(capsys)
    [run] = (tmp_path / "runs").iterdir()
    assert f"results: runs/{run.name}" in out
    data = json.loads((run / "results.json").read_text())
    VALIDATOR.validate(data)
    believed = [each for each in data["tests"] if each["believed"]]
    assert {each["setting"] for each in believed} == {PAIRS.name}
    assert {each["setting"] for each in data["tests"]} == {PAIRS.name, BUFFERS.name}
    assert len((run / "logs/trials.log").read_text().splitlines()) == data["jobs"]
    assert "Better settings" in (run / "report.html").read_text()
    assert read.find_run("", tmp_path / "runs") == run
    assert read_run(run).verb == "tune"


def test_a_node_that_is_unreachable_is_named_and_the_run_is_kept(made_up, capsys, tmp_path):
    made_up.fleet.condition.unreachable.add(2)
    code, out, _ = tune(capsys)
    assert code == ExitCode.UNKNOWN
    assert SHAPE.names[2] in out
    assert "nothing was measured" in out
    [run] = (tmp_path / "runs").iterdir()
    data = json.loads((run / "results.json").read_text())
    VALIDATOR.validate(data)
    assert (data["verdict"], data["jobs"], data["leave_defaults"]) == ("unknown", 0, False)
    assert "Not measured" in (run / "report.html").read_text()


def test_an_interrupt_concludes_nothing_and_keeps_the_trials(made_up, capsys):
    inner, left = made_up.runner, iter(range(3))

    def run(jobs):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return inner.run(jobs)

    made_up.runner = SimpleNamespace(run=run)
    code, out, error = tune(capsys, "--json", "-")
    assert code == ExitCode.INTERRUPTED
    assert "interrupted after 3 jobs: nothing is concluded" in error
    assert len(json.loads(out)["trials"]) == 3


def test_jobs_that_all_fail_are_unknown(made_up, capsys):
    inner = made_up.runner

    def run(jobs):
        (ran,) = inner.run(jobs)
        next(iter(ran.nodes.values())).rc = 1
        return [ran]

    made_up.runner = SimpleNamespace(run=run)
    code, out, _ = tune(capsys)
    assert code == ExitCode.UNKNOWN
    assert "no job without a setting ended well" in out


def test_one_node_is_wrong_usage(made_up, capsys):
    made_up.nodes = made_up.nodes[:1]
    code, _, error = tune(capsys)
    assert code == ExitCode.USAGE
    assert "two nodes or more" in error
