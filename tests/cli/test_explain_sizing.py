"""`rdmaprov explain sizing`: its formulas, and what it refuses."""

import pytest

from rdmaprov import cli
from rdmaprov.exit_codes import ExitCode

STEP = ("--parameters", "7e9", "--dtype", "bf16", "--gpus", "256", "--step-s", "1")


@pytest.fixture
def sizing(capsys):
    def run(*options):
        code = cli.run(["explain", "sizing", *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_each_number_has_its_formula(sizing):
    code, out, _ = sizing(*STEP)
    assert code == ExitCode.OK
    for start in ("gradients: 14 GB = ", "per GPU: 27.9 GB/s = ", "per rail: 223.1 Gb/s = "):
        assert [line for line in out.splitlines() if line.startswith(start)], out


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
        ((*STEP, "--json"), "No such option '--json'"),
    ],
)
def test_wrong_options_are_one_line_with_a_hint(sizing, options, says):
    code, out, error = sizing(*options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert says in error
    assert len(error.splitlines()) == 2
    assert error.splitlines()[1].startswith("hint:")
