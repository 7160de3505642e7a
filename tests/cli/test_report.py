"""`rdmaprov report`, and the page that every verb leaves: found, made, or one line says why not."""

import json
import re
import resource
import stat
import sys
from html import escape

import pytest
from tests.report import gate_runs, runs
from tests.tables import cases
from tests.unit.helpers.shell import execute

from rdmaprov.cli import run
from rdmaprov.exit_codes import ExitCode
from rdmaprov.report import of_accept, write
from rdmaprov.report.write import html

ODD = "<script>alert(1)</script>"
WHOLE = "20260302-091200-validate"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep(tmp_path, WHOLE, runs.validated(2))
    return tmp_path


def keep(place, name, data):
    directory = place / "runs" / name
    directory.mkdir(parents=True)
    if data is not None:
        (directory / "results.json").write_text(data if isinstance(data, str) else json.dumps(data))
    return directory


def test_page_is_made_for_its_user_only_and_again(place, capsys):
    for _ in range(2):
        assert run(["report"]) == ExitCode.OK
        assert capsys.readouterr().out == f"runs/{WHOLE}/report.html\n"
    page = place / "runs" / WHOLE / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "MTU is 1500, expected 9000" in page.read_text()
    assert sorted(path.name for path in page.parent.iterdir()) == ["report.html", "results.json"]


def test_page_needs_the_run_s_results_alone(place, tmp_path_factory):
    other = tmp_path_factory.mktemp("elsewhere") / "moved"
    other.mkdir()
    (place / "runs" / WHOLE / "results.json").rename(other / "results.json")
    assert run(["report", str(other)]) == ExitCode.OK
    assert (other / "report.html").is_file()


@pytest.mark.parametrize(
    "named", [WHOLE, f"runs/{WHOLE}", f"runs/{WHOLE}/", f"runs/{WHOLE}/results.json"]
)
def test_run_is_named_as_one_likes(place, capsys, named):
    keep(place, "20260303-000000-apply", runs.applied(2))
    assert run(["report", named]) == ExitCode.OK
    assert capsys.readouterr().out == f"runs/{WHOLE}/report.html\n"


def test_newest_run_is_taken_whatever_its_verb(place, capsys):
    newest = "20260303-000000-apply-10"
    for name in ("20260303-000000-apply-2", newest, "20260303-000000-apply"):
        keep(place, name, runs.applied(2))
    (place / "runs" / "99999999-not-a-run").mkdir()
    assert run(["report"]) == ExitCode.OK
    assert capsys.readouterr().out == f"runs/{newest}/report.html\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "is missing: the run was killed, or is still running"),
        ('{"schema": 1, "verb"', "is incomplete or no JSON"),
        ("[]", "is not the result of a run"),
        ({**runs.applied(2), "schema": 2}, "has schema 2, this rdmaprov reads 1"),
        ({**runs.applied(2), "nodes": None}, "nodes is missing or wrong"),
        ({**runs.applied(2), "nodes": {"n": {}}}, "KeyError: 'state' is missing or wrong"),
        ({**runs.applied(2), "verb": "later"}, "verb is missing or wrong"),
    ],
)
def test_run_that_cannot_be_read_is_not_known(place, capsys, data, says):
    directory = keep(place, "20260303-000000-apply", data)
    assert run(["report"]) == ExitCode.UNKNOWN
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: runs/20260303-000000-apply/results.json ")
    assert says in error
    assert f"rdmaprov report runs/{WHOLE}" in hint or "Update rdmaprov" in hint
    assert not (directory / "report.html").exists()


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("20260101-000000-plan", f"The newest is runs/{WHOLE}"),
        ("/nonexistent/runs", f"The newest is runs/{WHOLE}"),
    ],
)
@pytest.mark.usefixtures("place")
def test_run_that_is_not_there_is_a_usage_error(capsys, named, says):
    assert run(["report", named]) == ExitCode.USAGE
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: {named}: there is no such run"
    assert says in hint


def test_no_run_at_all_is_a_usage_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["report"]) == ExitCode.USAGE
    assert "error: runs: there is no run" in capsys.readouterr().err


def test_page_that_cannot_be_written_is_one_line(place, capsys):
    directory = place / "runs" / WHOLE
    (directory / "report.html").mkdir()  # what root cannot write over either
    (line,) = write.report_page(directory).splitlines()
    assert line.startswith(f"report: not written: {directory}/report.html: Is a directory. Fix")
    assert run(["report"]) == ExitCode.USAGE
    assert "Is a directory" in capsys.readouterr().err


def test_full_disk_leaves_the_page_that_was(place):
    directory = place / "runs" / WHOLE
    assert write.report_page(directory) == f"report: {directory}/report.html"
    before = (directory / "report.html").read_text()
    files = sorted(directory.iterdir())
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        assert "File too large" in write.report_page(directory)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (directory / "report.html").read_text() == before
    assert sorted(directory.iterdir()) == files


@pytest.mark.parametrize(
    "make", [runs.validated, runs.applied, lambda n: runs.applied(n, "plan"), gate_runs.accepted]
)
def test_nothing_of_a_node_s_is_markup(make):
    text = json.dumps(make(4)).replace("gpu2", ODD).replace("ens1", "<b>").replace("Look", "<i>")
    page = html(json.loads(text))
    assert ODD not in page
    assert "&lt;script&gt;alert(1)" in page
    assert not any(tag in page for tag in ("<script", "<b>", "<i>", "onerror"))


def test_page_shows_what_a_terminal_would_obey_and_what_turns_a_text_around():
    text = json.dumps(runs.validated(4)).replace("gpu2", "\\u001b[2J\\u009b\\u202e\\ud800")
    page = html(json.loads(text))
    assert r"\x1b[2J\x9b\u202e\ud800" in page
    assert page.replace("\n", "").replace("\t", "").isprintable()


def test_page_asks_nobody_for_anything():
    page = html(gate_runs.accepted(4))
    addresses = {word for word in page.replace('"', " ").split() if "//" in word}
    # Names of XML's own languages; no address that a browser opens.
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@pytest.mark.parametrize("make", [runs.validated, runs.applied])
def test_page_of_1024_nodes_that_all_differ_stays_small(make):
    data = make(1024)
    for number, (name, node) in enumerate(data["nodes"].items()):
        if data["verb"] == "apply":
            node |= {"state": "failed", "failed_task": f"t{number}", "problems": [f"p {number}"]}
            node["roles"] = {"mtu": "failed"} if number % 2 else {}
            continue
        node["subjects"] = {"mtu": {"failed": number + 1}}
        data["checks"] += [
            {
                "test": f"test_mtu.py::test_{number}_{n}[{name}]",
                "node": name,
                "outcome": "failed",
                "message": f"{name} ens{n}: {number} {n} {'x' * 200}. Fix, on {name}: x",
            }
            for n in range(16)
        ]
    page = html(data)
    assert len(page.encode()) < 4_000_000
    assert "more in results.json" in page


def test_findings_are_titled_by_what_is_wrong():
    titles = re.findall(r"<h3>(.*?)</h3>", html(runs.validated(64)))
    assert any("MTU is 1500, expected 9000" in title for title in titles)
    assert not [title for title in titles if "::" in title]


def python(place, code, check=False):
    return execute([sys.executable, "-c", code], cwd=place, check=check)


def report_without(library, place):
    keep(place, WHOLE, gate_runs.accepted(2, pairs=True))
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
    page = write.write_page(keep(tmp_path, WHOLE, gate_runs.accepted(2, pairs=True))).read_text()
    assert page.count("<svg") == 1
    assert "rdmaprov[plots]" not in page
    assert page.count("<details open>") == 2  # tables without a picture


SPOILT = cases(__file__, "spoilt")


def test_missing_library_leaves_the_verdict(place):
    (line,) = python(place, SPOILT, check=True).stdout.splitlines()
    assert line.startswith(
        "report: not written: the Python package jinja2.loaders cannot be imported"
    )


@pytest.mark.parametrize(("code", "never"), cases(__file__, "nobody_pays_for_plots_who_sees_none"))
def test_nobody_pays_for_plots_who_sees_none(place, code, never):
    asked = f"import sys; {code}; print([name for name in {never} if name in sys.modules])"
    assert python(place, asked, check=True).stdout.splitlines()[-1] == "[]"
