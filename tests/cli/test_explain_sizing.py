"""`rdmaprov explain sizing`: its JSON, its formulas, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

DOCS = Path(__file__).parents[2] / "docs/sizing.md"
STEP = ("--parameters", "7e9", "--dtype", "bf16", "--gpus", "256", "--step-s", "1")
SWITCHES = ("--nodes", "512", "--rails", "8", "--link-gbps", "400", "--ports", "64")


@pytest.fixture
def sizing(capsys):
    def run(*options):
        code = cli.run(["explain", "sizing", *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_json_of_a_step(sizing):
    code, out, _ = sizing(*STEP, "--json")
    found = json.loads(out)
    assert code == ExitCode.OK
    assert found["gradient_bytes"] == 14_000_000_000
    assert found["bytes_per_gpu_per_step"] == 27_890_625_000
    assert found["gb_s_per_gpu"] == 27.890625
    assert found["gbps_per_rail"] == 223.125
    assert list(found["exposed_share"]) == ["1:1", "2:1", "4:1"]
    assert 0 < found["exposed_share"]["1:1"] < found["exposed_share"]["4:1"] < 1


def test_json_of_switches(sizing):
    found = json.loads(sizing(*SWITCHES, "--oversubscription", "1", "--json")[1])
    counts = [found[key] for key in ("leaves", "spines", "cores", "cables", "levels")]
    assert counts == [128, 64, 0, 8192, 2]
    assert (found["bisection_tb_s"], found["bisection_tbps"]) == (102.4, 819.2)


def test_both_questions_have_one_document(sizing):
    found = json.loads(sizing(*STEP, *SWITCHES, "--json")[1])
    assert (found["leaves"], found["gradient_bytes"]) == (128, 14_000_000_000)
    assert found["gpus_per_node"] == 8


def test_gpus_are_those_of_the_nodes_if_not_given(sizing):
    found = json.loads(sizing("--parameters", "7B", "--step-s", "1", *SWITCHES, "--json")[1])
    assert found["gpus"] == 4096


def test_each_number_has_its_formula(sizing):
    lines = sizing(*STEP, *SWITCHES)[1].splitlines()
    for name in (
        "gradients: 14 GB",
        "per GPU:",
        "per rail:",
        "leaves:",
        "spines:",
        "cables:",
        "bisection:",
    ):
        [line] = [line for line in lines if line.startswith(name)]
        assert " = " in line


def test_the_other_arrangement_of_rails_is_named(sizing):
    assert (
        "as one tree of all rails: 3 levels, 128 leaves, 128 spines, 64 cores"
        in sizing(*SWITCHES)[1]
    )
    out = sizing(*SWITCHES, "--planes", "1")[1]
    assert "as 8 planes, one for each rail: 2 levels, 128 leaves, 64 spines" in out


def test_planes_and_one_tree_of_the_same_size_are_said_to_be_the_same(sizing):
    out = sizing("--nodes", "128", *SWITCHES[2:])[1]
    assert "as one tree of all rails: the same switches" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "neither a model nor switches"),
        (("--parameters", "0", *STEP[2:]), "not a number of parameters"),
        (("--parameters", "-7e9", *STEP[2:]), "not a number of parameters"),
        (("--parameters", "7e9", "--gpus", "256"), "the time of a step is not given"),
        (("--parameters", "7e9", "--step-s", "1"), "the GPUs of the job are not given"),
        ((*STEP[:6], "--step-s", "0"), "--step-s must be above 0"),
        ((*STEP[:6], "--step-s", "nan"), "--step-s must be above 0"),
        ((*STEP[:4], "--gpus", "0", "--step-s", "1"), "--gpus must be at least 2"),
        ((*STEP, "--gpu", "H100"), "exclude each other"),
        ((*STEP, "--tp", "0"), "--tp must be at least 1"),
        ((*STEP, "--tp", "8"), "--tp and --pp send activations"),
        ((*STEP, "--gpus-per-node", "-8"), "--gpus-per-node must be at least 1"),
        ((*STEP, "--link-gbps", "0"), "--link-gbps must be from 1"),
        ((*STEP, "--oversubscription", "2"), "--oversubscription has no meaning without --ports"),
        ((*SWITCHES, "--gpus", "256"), "--gpus has no meaning without --parameters"),
        (SWITCHES[:6], "the ports of a switch are not given"),
        (("--nodes", "512", "--ports", "64"), "--rails and --link-gbps are not given"),
        (("--nodes", "0", *SWITCHES[2:]), "--nodes must be from 2"),
        (("--nodes", "-1", *SWITCHES[2:]), "--nodes must be from 2"),
        ((*SWITCHES, "--oversubscription", "0"), "not a ratio"),
        ((*SWITCHES, "--planes", "3"), "does not divide"),
        (("--nodes", "100000", *SWITCHES[2:], "--planes", "1"), "do not fit a fat tree"),
    ],
)
def test_wrong_options_are_one_line_with_a_hint(sizing, options, says):
    code, out, error = sizing(*options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert says in error
    assert len(error.splitlines()) == 2
    assert error.splitlines()[1].startswith("hint:")


@pytest.mark.parametrize("options", [STEP, SWITCHES])
def test_the_docs_show_what_is_printed(sizing, options):
    shown = f"$ rdmaprov explain sizing {' '.join(options)}\n{sizing(*options)[1]}```"
    assert shown in DOCS.read_text(encoding="utf-8")
