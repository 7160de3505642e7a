"""Wrong calls of every verb: two lines, what is wrong and what to do; nothing is begun or left."""

import shlex

import pytest
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab.ib_topology import Topology, write_site

USAGE = cases(__file__, "usage")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("usage")
    write(made / "site", GOOD)
    write_site(made / "ib", Topology(rails=2))
    (made / "empty").mkdir()
    return made


LIMITED = ("accept", "apply", "check", "discover", "plan", "record", "validate")
EMPTY = "is empty; leave the option out to select all"
CASES = [
    *((f"{verb} {words}", says) for verb, wrong in USAGE.items() for words, says in wrong.items()),
    # As an unset variable of a shell leaves it.
    *((f"{verb} site --limit {text}", EMPTY) for verb in LIMITED for text in ("''", "' '", ",")),
    *((f"{verb} site --roles ''", EMPTY) for verb in ("apply", "plan")),
    ("validate site --hosts ''", EMPTY),
]


@pytest.mark.parametrize(("line", "says"), CASES)
def test_wrong_call_is_two_lines_and_changes_nothing(place, line, says, monkeypatch, capfd):
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    code = run(shlex.split(line))
    out, said = capfd.readouterr()
    assert (code, out) == (ExitCode.USAGE, ""), said
    error, hint = said.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint:  ")
    for text, part in zip((error, hint), [says] if isinstance(says, str) else says, strict=False):
        assert part in text
    assert sorted(place.rglob("*")) == before
