"""A page without the libraries that draw it has all its numbers, or is one line."""

import json
import sys
from html import escape

import pytest
from tests.report import gate_runs, runs
from tests.unit.helpers.shell import execute

from rdmaprov.exit_codes import ExitCode
from rdmaprov.report import of_accept, write

WHOLE = "20260302-091200-validate"


@pytest.fixture
def place(tmp_path):
    keep(tmp_path, runs.validated(2))
    return tmp_path


def keep(place, data):
    directory = place / "runs" / WHOLE
    directory.mkdir(parents=True)
    (directory / "results.json").write_text(json.dumps(data))
    return directory


def python(place, code, check=False):
    command = [sys.executable, "-c", code]
    return execute(command, cwd=place, check=check)


def report_without(library, place):
    """Return how `report` ends where a library cannot be imported."""
    keep(place, gate_runs.accepted(2, pairs=True))
    report = f"from rdmaprov.cli import run; sys.exit(run(['report', {WHOLE!r}]))"
    return python(place, f"import sys; sys.modules[{library!r}] = None\n{report}")


def test_missing_library_is_two_lines(tmp_path):
    done = report_without("jinja2", tmp_path)
    assert done.returncode == ExitCode.USAGE
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: the Python package jinja2")
    assert hint.startswith("hint:  ")


@pytest.mark.parametrize("library", ["matplotlib", "numpy"])
def test_page_without_matplotlib_has_all_numbers_and_says_how_to_add_plots(tmp_path, library):
    done = report_without(library, tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    page = (tmp_path / "runs" / WHOLE / "report.html").read_text()
    plots = of_accept.view(gate_runs.accepted(2, pairs=True)).plots
    assert len(plots) == 3
    missing = f"pip install 'rdmaprov[plots]' and then: rdmaprov report {WHOLE}"
    assert page.count(missing) == sum(plot.svg is not None for plot in plots) == 1
    assert page.count("<details open>") == len(plots)
    assert "<svg" not in page
    for plot in plots:
        assert f'<section id="{plot.name}"' in page
        for cell in (cell for row in plot.table.rows for cell in row if cell):
            assert f">{escape(cell)}</t" in page


def test_page_with_matplotlib_has_plots(tmp_path):
    page = write.write_page(keep(tmp_path, gate_runs.accepted(2, pairs=True))).read_text()
    assert page.count("<svg") == 1
    assert "rdmaprov[plots]" not in page
    assert page.count("<details open>") == 2  # tables without a picture


SPOILT = """
import sys
from html import escape
from pathlib import Path
sys.modules["jinja2.loaders"] = None
from rdmaprov.report.write import report_page
print(report_page(Path("runs/20260302-091200-validate")))
"""


def test_missing_library_leaves_the_verdict(place):
    (line,) = python(place, SPOILT, check=True).stdout.splitlines()
    assert line.startswith(
        "report: not written: the Python package jinja2.loaders cannot be imported"
    )


@pytest.mark.parametrize(
    ("code", "never"),
    [
        ("from rdmaprov.cli import run; run(['--help'])", ["matplotlib"]),
        ("from rdmaprov.cli import run; run(['report', '--help'])", ["jinja2", "matplotlib"]),
        ("from rdmaprov.cli import check", ["matplotlib", "rdmaprov.report"]),
        ("import rdmaprov.cli.apply, rdmaprov.cli.accept, rdmaprov.cli.validate", ["matplotlib"]),
        ("from rdmaprov.cli import run; run(['report'])", ["matplotlib"]),
    ],
)
def test_nobody_pays_for_plots_who_sees_none(place, code, never):
    asked = f"import sys; {code}; print([name for name in {never} if name in sys.modules])"
    assert python(place, asked, check=True).stdout.splitlines()[-1] == "[]"
