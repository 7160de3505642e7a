"""`rdmaprov watch` on made-up nodes: its lines, files and exit codes."""

import json
import os
import signal

import jsonschema
import pytest
from tests.madeup.watch_faults import FAULTS
from tests.madeup.watched import MadeUpLink, MadeUpWatch
from tests.program import ended_here
from tests.unit.helpers.sites import GOOD, write
from tests.unit.report.test_report_results import VALIDATOR

from rdmaprov.cli import watch_run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.read_run import read_run
from rdmaprov.inventory import load_site
from rdmaprov.watch import collect
from rdmaprov.watch.verdict import TITLES

RAILS = "".join(f"  - {{netdev: ens{rail}}}\n" for rail in range(4))
SITE = {
    **GOOD,
    "hosts.yml": "---\nnodes:\n  hosts: {n1: {}, n2: {}, n3: {}, n4: {}}\n",
    "group_vars/all.yml": "---\nfabric_kind: roce\nfabric_link_gbps: 400\nfabric_leaf: leaf01\n"
    f"fabric_rails:\n{RAILS}",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Provide a site in the working directory; its made-up nodes tell the time, as they pass it."""
    monkeypatch.chdir(tmp_path)
    watch = MadeUpWatch(load_site(write(tmp_path / "site", SITE)).nodes)
    numbers = {node.name: number for number, node in enumerate(watch.nodes)}

    async def connect(name):
        return MadeUpLink(watch, numbers[name])

    class Collector(collect.Collector):
        def __init__(self, accounts, given, on_look):
            super().__init__(accounts, given, lambda _now: on_look(float(watch.second)))

    monkeypatch.setattr(collect, "EVERY_S", 0.01)
    monkeypatch.setattr(watch_run, "Collector", Collector)
    monkeypatch.setattr(watch_run, "Connector", lambda _targets: connect)
    return watch


def interrupt_when(watch, ready):
    inner = watch.pass_second

    def pass_second():
        inner()
        if ready():
            os.kill(os.getpid(), signal.SIGINT)

    watch.pass_second = pass_second


def run(capsys, *words):
    return ended_here(capsys, "watch", "site", *words)


def test_fault_is_named_at_once_and_at_the_end_in_results_and_page(place, capsys, tmp_path):
    place.faults = [FAULTS["storm of pause"].make((1, 2))]

    def is_named():
        said = "".join(each.read_text() for each in (tmp_path / "runs").glob("*/logs/*"))
        return place.second > 20 and "storm of pause" in said and "victim" in said

    interrupt_when(place, is_named)
    code, out, _ = run(capsys, "--for", "1m")
    assert code == ExitCode.FAILED
    storm = "n2 rail 2 (leaf leaf01): storm of pause: it pauses its switch without a break"
    assert out.count(storm) == 2
    assert "3 nodes (n[1,3-4]) rail 2: victim of pause: " in out
    assert "4 nodes watched for" in out
    assert "1 with a fault, 3 victims; 4 had traffic" in out
    (directory,) = (tmp_path / "runs").iterdir()
    data = json.loads((directory / "results.json").read_text())
    VALIDATOR.validate(data)
    states = {name: node["state"] for name, node in data["nodes"].items()}
    assert states == {"n2": "failed", **dict.fromkeys(("n1", "n3", "n4"), "victim")}
    page = (directory / "report.html").read_text()
    assert "storm of pause" in page
    assert "Something is wrong" in page
    assert "3 nodes (n[1,3-4])" in page.partition("victim:")[2]
    assert "<td>" in page.partition("What the rails were in")[2].partition("pausing for")[2]
    assert storm in (directory / "logs/watch.log").read_text()
    kept = read_run(directory)
    assert kept.states == {"n1": "passed", "n2": "failed", "n3": "passed", "n4": "passed"}
    assert {(each.node, each.rail) for each in kept.troubles if "storm" in each.key} == {("n2", 2)}


def test_healthy_fleet_is_ok_and_json_alone_is_on_standard_output(place, capsys):
    interrupt_when(place, lambda: place.second > 12)
    code, out, error = run(capsys, "--for", "1m", "--json", "-")
    data = json.loads(out)
    VALIDATOR.validate(data)
    assert code == data["exit_code"] == ExitCode.OK, data["findings"]
    assert "4 nodes watched for" in error
    assert data["watched_s"] > 5
    assert data["ended_early"]


def test_interrupt_ends_a_watch_without_a_time(place, capsys):
    interrupt_when(place, lambda: place.second > 12)
    code, out, _ = run(capsys)
    assert code == ExitCode.OK
    assert "watching 4 nodes until Ctrl-C" in out
    assert "without a fault" in out


def test_nobody_to_watch_is_no_time_that_was_watched(place, capsys, tmp_path):
    place.silent.update(range(4))
    code, out, _ = run(capsys)
    assert code == ExitCode.UNKNOWN
    assert out.count("4 nodes not watched: 4 unknown\n") == 1
    (page,) = (tmp_path / "runs").glob("*/report.html")
    assert "no time: no node was read" in page.read_text()
    assert "0.0 s" not in out


@pytest.mark.usefixtures("place")
def test_limit_watches_these_nodes(capsys):
    code, out, _ = run(capsys, "--for", "1s", "--limit", "n2,n3")
    assert code == ExitCode.OK
    assert "2 nodes watched" in out


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--for", "soon"], ExitCode.USAGE, "--for: 'soon' is no time"),
        (["--for", "0"], ExitCode.USAGE, "--for: '0' is no time"),
        (["--for", "1000h"], ExitCode.USAGE, "at most 168h"),
        (["--limit", ""], ExitCode.USAGE, "is empty"),
        (["--limit", "nobody"], ExitCode.USAGE, "nobody"),
        (["--wait", "3"], ExitCode.USAGE, "No such option"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_no_run(capsys, tmp_path, words, code, says):
    got, _, error = run(capsys, *words)
    assert (got, error.count("error: ")) == (code, 1)
    assert says in error
    assert not (tmp_path / "runs").exists()


def test_site_that_is_not_there_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, error = run(capsys, "--for", "1s")
    assert code == ExitCode.INVALID_SITE
    assert "site" in error


def test_schema_refuses_another_kind():
    assert isinstance(VALIDATOR, jsonschema.Draft202012Validator)
    kinds = VALIDATOR.schema["$defs"]["watched"]["properties"]["findings"]["items"]["properties"]
    assert kinds["kind"]["enum"] == list(TITLES)
