"""`rdmaprov explain sizing`: its JSON, its formulas, and what it refuses."""

import json
from pathlib import Path

import pytest

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

DOCS = Path(__file__).parents[2] / "docs/sizing.md"
STEP = ("--parameters", "7e9", "--dtype", "bf16", "--gpus", "256", "--step-s", "1")


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


def test_each_number_has_its_formula(sizing):
    lines = sizing(*STEP)[1].splitlines()
    for name in ("gradients: 14 GB", "per GPU:", "per rail:"):
        [line] = [line for line in lines if line.startswith(name)]
        assert " = " in line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "the model is not given"),
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
        ((*STEP, "--ports", "64"), "No such option '--ports'"),
    ],
)
def test_wrong_options_are_one_line_with_a_hint(sizing, options, says):
    code, out, error = sizing(*options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert says in error
    assert len(error.splitlines()) == 2
    assert error.splitlines()[1].startswith("hint:")


def test_the_docs_show_what_is_printed(sizing):
    shown = f"$ rdmaprov explain sizing {' '.join(STEP)}\n{sizing(*STEP)[1]}```"
    assert shown in DOCS.read_text(encoding="utf-8")
