"""`merge`: runs of two controllers say together what one run of all nodes says."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path

import jsonschema
import pytest
from tests.validate.runner import ROOT, judge
from tests.validate.test_faults import MADE_HERE, TABLE, _described, alter, hosts_of

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.last_word import PASSED, last_words
from rdmaprov.validate.results import CheckResults, Outcome

SITE = Path(__file__).parent / "site"
SCHEMA = json.loads((ROOT / "docs/results.schema.json").read_text(encoding="utf-8"))
FILE = "test_uniformity.py"
UNLIKE = [name for name in MADE_HERE if any(test.startswith(FILE) for test in TABLE[name]["red"])]
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
BOOTS = {name: f"{name[-1] * 8}-1111-4111-8111-111111111111" for name in ("gpu1", "gpu2")}


def compared(suite, fleet, altered, learnt, tests=()):
    samples, red = {}, set()
    for test in tests or [f"{FILE}::{each}" for each in vars(suite[FILE]) if each[:5] == "test_"]:
        hosts = hosts_of(altered, learnt)
        outcomes = judge({FILE: suite[FILE]}, fleet, hosts, names=frozenset([test]))
        red |= {each.test for each in outcomes if each.state == "failed"}
        samples[test] = hosts.compared
    return samples, red


def run_of(runs, name, names, samples, ended=NOON, **changed):
    """Write results.json of a controller that has some of the nodes; all of them pass alone."""
    found = CheckResults(names)
    for node in names:
        found._count("test_mtu.py::test_rail_mtu", node, Outcome.PASSED)
        found.asked.boots[node] = (BOOTS[node], 100.0)
        found.asked.due[node] = 1
    for test, own in samples.items():
        for setting, node, *rest in own:
            if node in names:
                found.compared.setdefault((test, setting, *rest), []).append(node)
    head = Head("validate", SITE, None, ended - timedelta(minutes=1))
    more = {"hosts": None, "options": [], **found.as_data()}
    data = results_document(head, ended, ExitCode.OK, found.nodes_as_data(), more)
    data |= {"commit": "a" * 40, **changed}
    jsonschema.validate(data, SCHEMA)
    (runs / name).mkdir(parents=True)
    (runs / name / "results.json").write_text(json.dumps(data))
    return name


@pytest.fixture(scope="module")
def learnt(suite, fleet, nodes, infiniband_fleet, infiniband_nodes):
    found = []
    for own, its in ((fleet, nodes), (infiniband_fleet, infiniband_nodes)):
        hosts = hosts_of(its, {name: {} for name in its})
        judge({FILE: suite[FILE]}, own, hosts)
        found.append((own, its, {name: host.backend.known for name, host in hosts.items()}))
    return found


@pytest.fixture
def merge(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RDMAPROV_RUNS", raising=False)

    def merge(*words):
        code = cli.run(["merge", *words, "--site", str(SITE)])
        kept = [path for path in Path("runs").glob("*/results.json") if path.parent.name > "2026-"]
        data = [json.loads(path.read_text()) for path in kept]
        return code, "".join(capsys.readouterr()), next((d for d in data if "merged" in d), None)

    return merge


@pytest.fixture(scope="module")
def alike(suite, learnt):
    fleet, nodes, known = learnt[0]
    return compared(suite, fleet, nodes, known)[0]


@pytest.mark.program
@pytest.mark.parametrize("name", ["", *UNLIKE])
def test_runs_of_two_controllers_say_what_one_run_says(name, suite, learnt, tmp_path, merge):
    fault = TABLE[name] if name else {"do": [], "red": {}}
    fleet, nodes, known = learnt[bool(fault.get("infiniband"))]
    altered = {each: node.like(tmp_path / each) for each, node in nodes.items()}
    node = fleet.nodes[0]
    for each in fault["do"]:
        node = alter(altered, node, each)
    others = [each["site"] for each in fault["do"] if each.get("everywhere")]
    fleet = replace(fleet, nodes=(node, reduce(_described, others, fleet.nodes[1])))
    own = [test for test in fault["red"] if test.startswith(FILE)]
    samples, red = compared(suite, fleet, altered, known, own)
    runs = [run_of(Path("runs"), f"2-{each}-validate", (each,), samples) for each in altered]
    code, said, data = merge(*runs)
    assert {each["test"] for each in data["checks"]} == red
    assert bool(red) == bool(name)
    assert code == (ExitCode.FAILED if red else ExitCode.OK), said
    assert data["complete"] == {"fleet": True, "left_out": []}
    jsonschema.validate(data, SCHEMA)


def test_merged_run_is_the_last_word_about_its_nodes(merge, alike):
    runs = [run_of(Path("runs"), f"2-{n}-validate", (n,), alike) for n in BOOTS]
    code, said, _ = merge(*runs)
    assert code == ExitCode.OK
    assert "2 runs, 2 nodes: 2 passed" in said
    words = last_words(SITE, [*BOOTS], Path("runs"))
    assert {name: (each.state, each.boot_id) for name, each in words.items()} == {
        name: (PASSED, boot) for name, boot in BOOTS.items()
    }


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"commit": "b" * 40}, "not verified: the runs are of different commits of the site"),
        ({"commit": ""}, "not verified: the runs are of different commits of the site"),
        ({"interrupted": True}, "2-gpu2-validate did not ask everything: interrupted"),
        ({"nodes": {}}, "not verified: in no run: gpu2"),
    ],
)
def test_what_is_not_proven_is_no_pass(changed, says, merge, alike):
    first = run_of(Path("runs"), "2-gpu1-validate", ("gpu1",), alike)
    second = run_of(Path("runs"), "2-gpu2-validate", ("gpu2",), alike, **changed)
    code, said, data = merge(first, second)
    assert code == ExitCode.UNKNOWN
    assert says in said
    assert data["complete"]["fleet"] is False


def test_newer_run_counts_and_what_the_older_one_says_is_named(merge, alike):
    both = run_of(Path("runs"), "2-new-validate", ("gpu1", "gpu2"), alike, NOON)
    older = {
        test: [(*key[:4], "6.1.0") if key[0] == "release" else key for key in own]
        for test, own in alike.items()
    }
    before = run_of(Path("runs"), "2-old-validate", ("gpu1",), older, NOON - timedelta(hours=1))
    data = json.loads(Path("runs/2-old-validate/results.json").read_text())
    data["nodes"]["gpu1"] |= {"state": "failed", "failed": 1, "uptime_s": 50.0}
    Path("runs/2-old-validate/results.json").write_text(json.dumps(data))
    code, said, merged = merge(before, both)
    assert code == ExitCode.OK
    assert "conflict: gpu1: state: failed in 2-old-validate, passed in 2-new-validate" in said
    assert "conflict: gpu1: release kernel: 6.1.0 in 2-old-validate" in said
    assert [each["nodes"] for each in merged["merged"]] == [[], ["gpu1", "gpu2"]]


BOTH = ["2-a-validate", "2-b-validate"]


@pytest.mark.parametrize(
    ("words", "changed", "code", "says"),
    [
        (BOTH[:1], {}, ExitCode.USAGE, "two runs or more"),
        (BOTH[:1] * 2, {}, ExitCode.USAGE, "two runs or more"),
        (["2-a-validate", "nowhere"], {}, ExitCode.USAGE, "there is no such run"),
        (BOTH, {"verb": "accept"}, ExitCode.USAGE, "is a run of accept"),
        (BOTH, {"nodes": []}, ExitCode.UNKNOWN, "damaged: nodes"),
        (BOTH, {"started": "x"}, ExitCode.UNKNOWN, "damaged"),
        (BOTH, {"compared": None}, ExitCode.UNKNOWN, "before merge"),
    ],
)
def test_what_cannot_be_merged_is_refused(words, changed, code, says, merge, alike):
    for name in BOTH:
        run_of(Path("runs"), name, ("gpu1",), alike)
    path = Path("runs/2-b-validate/results.json")
    data = json.loads(path.read_text()) | changed
    path.write_text(json.dumps({key: own for key, own in data.items() if own is not None}))
    seen, said, merged = merge(*words)
    assert (seen, merged) == (code, None)
    assert says in said
