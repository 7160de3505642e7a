"""Units that are accepted as they arrive, and joined: what is taken, and what the certificate says.

`accept --join` runs as a whole; ranks and preflight are made up (tests/cli/certified.py).
"""

import json
from datetime import timedelta

import pytest
from tests.cli.certified import SIZES, CertifiedFleet
from tests.madeup.shape import FleetShape

from rdmaprov.boundary import RIGHT
from rdmaprov.certificate import shape
from rdmaprov.certificate.statement import parse_time
from rdmaprov.runs.directory import run_time

UNITS = [("gpu001", "gpu002", "gpu003", "gpu004"), ("gpu005", "gpu006", "gpu007", "gpu008")]


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """Return a fleet of two units, the names of their runs, and the directory of the joined one."""
    directory = tmp_path_factory.mktemp("joined")
    fleet = CertifiedFleet(directory, FleetShape(nodes=8, rails=2, gpus=2, per_leaf=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        runs = []
        for unit in UNITS:
            assert fleet.run("accept", "site", "--limit", ",".join(unit), *SIZES) == 0
            runs.append(fleet.newest().name)
        assert fleet.run("accept", "site", "--join", "--sign", str(fleet.operator), *SIZES) == 0
        yield fleet, runs, fleet.newest()


def stages_of(run):
    return {each["name"]: each for each in json.loads((run / "results.json").read_text())["stages"]}


def nodes_of(stage):
    return {run: tuple(own) for run, own in stage.get("taken", {}).items()}


def test_what_units_proved_is_taken_and_what_is_between_them_is_measured(joined):
    _, runs, last = joined
    stages = stages_of(last)
    units = dict(zip(runs, UNITS, strict=True))
    assert {name: nodes_of(stage) for name, stage in stages.items()} == {
        "state": {},
        "preflight": {},
        **dict.fromkeys(("gpu", "host", "pairs", "groups"), units),
        "fleet": {},
    }
    events = [json.loads(line) for line in (last / "logs/tests.jsonl").read_text().splitlines()[1:]]
    met = {tuple(each["nodes"]) for each in events if "gb_s" in each}
    across = {(a, b) for a in UNITS[0] for b in UNITS[1]}
    assert across <= {tuple(sorted(pair)) for pair in met}
    ranks = (last / "logs/ranks.jsonl").read_text().splitlines()
    assert not any(json.loads(line)["event"] == "gpu" for line in ranks)


def test_rates_that_were_taken_set_the_limit_inside_nodes(joined):
    _, runs, last = joined
    old = stages_of(last.with_name(runs[1]))["host"]["numbers"]
    taken = stages_of(last)["host"]["taken"][runs[1]]
    assert taken == {each["what"].removesuffix(" alone"): each["gb_s"] for each in old}


def test_the_certificate_names_the_runs_and_is_valid(joined, capsys):
    fleet, runs, last = joined
    path = last / "certificate.json"
    statement = json.loads(path.read_text())
    assert shape.STATEMENT(statement) is RIGHT
    by_name = {each["name"]: each for each in statement["predicate"]["stages"]}
    assert set(by_name["pairs"]["taken"]) == set(runs)
    until = parse_time(statement["predicate"]["valid_until"])
    assert until == run_time(runs[0]) + timedelta(days=30)
    words = ("certificate", "verify", path, "--allowed-signers", fleet.allowed)
    assert fleet.run(*words) == 0, capsys.readouterr().out
