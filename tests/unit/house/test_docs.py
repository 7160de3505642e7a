"""The documentation is true: links lead somewhere, commands exist, references are as written."""

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from _pytest.config.argparsing import Parser
from tests.report import gate_runs, runs
from tests.tables import cases
from tests.unit.helpers import doc_outputs, fleet_runs, museum_document
from tests.unit.helpers.doc_sites import FENCE, PageSites, commands, words, wrong_command
from tests.unit.helpers.fleet_month import PAGE, FleetMonth, refreshed
from tests.validate import document as checks

from rdmaprov.cli import cli, document, run
from rdmaprov.contract import document as contract_document
from rdmaprov.exit_codes import MEANINGS, ExitCode
from rdmaprov.finding import document as findings_document
from rdmaprov.inventory import document as variables_document
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.validate import plugin

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("roles/*/README.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def name(path):
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {f"{slug}-{n}" if n else slug for slug, last in found.items() for n in range(last + 1)}


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
        for target in LINK.findall(text):
            if not re.match(r"[a-z]+:", target):
                yield page, target


def wrong_link(page: Path, target: str) -> str:
    file, _, anchor = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    if not path.exists():
        return f"{name(page)}: {target}: there is no such file"
    if anchor and anchor not in anchors(path):
        return f"{name(page)}: {target}: there is no such heading"
    return ""


def test_links_lead_somewhere():
    assert [wrong for page, target in links() if (wrong := wrong_link(page, target))] == []


@pytest.mark.parametrize("target", ["no_such.md", "architecture.md#no-such", "#no-such"])
def test_wrong_link_is_found(target):
    assert wrong_link(ROOT / "docs" / "lab.md", target)


@pytest.fixture(scope="session")
def known(pytestconfig):
    ours = Parser(_ispytest=True)
    plugin.pytest_addoption(ours)
    said = "".join(each.optparser.format_help() for each in (pytestconfig._parser, ours))
    options = re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", said)
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {"pytest": frozenset(options), "make": frozenset(targets)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page, known):
    found = [wrong_command(line, known) for line in commands(page.read_text())]
    assert [wrong for wrong in found if wrong] == []


@pytest.mark.parametrize("line", cases(__file__, "wrong_command_is_found"))
def test_wrong_command_is_found(line, known):
    assert list(commands(f"```\n$ .venv/bin/{line}\n```\n")) == [line]
    assert wrong_command(line, known)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_name_what_exists(page, tmp_path):
    """Sites, nodes, groups, faults and files of the suite; a page may make a site itself."""
    sites = PageSites(tmp_path)
    found = [sites.wrong_name(line) for line in commands(page.read_text())]
    assert [wrong for wrong in found if wrong] == []


@pytest.mark.parametrize(("line", "says"), cases(__file__, "wrong_name_is_found"))
def test_wrong_name_is_found(line, says, tmp_path):
    assert says in PageSites(tmp_path).wrong_name(line)


def test_site_of_an_earlier_command_is_known(tmp_path):
    sites = PageSites(tmp_path)
    facts = "--kind roce --nodes gpu[1:2] --rails ens1 --gbps 400 --gpus 1"
    assert sites.wrong_name(f"rdmaprov init inventory/new {facts}") == ""
    assert sites.wrong_name("rdmaprov check inventory/new --limit gpu2") == ""
    assert "has no gpu3" in sites.wrong_name("rdmaprov check inventory/new --limit gpu3")


def test_nodes_of_a_site_with_questions_are_not_known(tmp_path):
    sites = PageSites(tmp_path)
    assert sites.wrong_name("rdmaprov init inventory/new") == ""
    assert sites.wrong_name("rdmaprov check inventory/new") == ""
    assert "has no gpu1" in sites.wrong_name("rdmaprov check inventory/new --limit gpu1")


def test_every_verb_is_used_in_a_guide():
    """A verb that no page shows in use is one that nobody finds."""
    typed = {
        tuple(line.split()[1:3])
        for page in PAGES
        if page.name != "cli.md"
        for line in commands(page.read_text())
        if line.startswith("rdmaprov ")
    }
    assert {verb for verb, *_ in typed} >= set(cli.list_commands(click.Context(cli)))


@pytest.mark.parametrize(("path", "text"), document.share().items(), ids=document.share())
def test_manual_page_and_completions_are_current(path, text):
    """Refresh with: make generate."""
    assert (ROOT / "share" / path).read_text() == text


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_manual_page_has_no_mistake_that_groff_sees():
    command = ["groff", "-man", "-Tutf8", "-ww", f"{ROOT}/share/man/man1/rdmaprov.1"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    assert "--max-failures" in shown.stdout


WRITTEN = {
    "checks.md": checks.markdown,
    "cli.md": document.markdown,
    "contract.md": contract_document.markdown,
    "findings.md": findings_document.markdown,
    "machines.md": museum_document.markdown,
    "variables.md": lambda: variables_document.markdown(load_shipped()),
}


@pytest.mark.parametrize("page", WRITTEN)
def test_written_page_is_current(page):
    """Refresh with: make generate."""
    assert (ROOT / "docs" / page).read_text() == WRITTEN[page]()


def test_every_exit_code_has_a_meaning():
    assert list(MEANINGS) == list(ExitCode)


def test_every_page_is_in_the_index():
    index = {
        target.partition("#")[0] for page, target in links() if page == ROOT / "docs/README.md"
    }
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    assert pages - {"README.md"} <= index


# Written by a program, or mostly its output.
GENERATED = {
    *("checks.md", "cli.md", "contract.md", "findings.md", "machines.md", "variables.md"),
    *("fleet-month.md", "measurements.md", "nccl-forms.md", "tests.md"),
}


def test_pages_are_short():
    """In words: the README is read in two minutes, and a page is about one subject."""
    pages = {page.relative_to(ROOT / "docs"): page for page in ROOT.glob("docs/**/*.md")}
    words = {str(path): len(page.read_text().split()) for path, page in pages.items()}
    assert {name: n for name, n in words.items() if n > 1500 and name not in GENERATED} == {}
    assert len((ROOT / "README.md").read_text().split()) <= 600


def test_outputs_name_nodes_that_their_site_has():
    ranges = re.findall(r"(gpu-\d-)\[01:(\d+)\]", (ROOT / "inventory/prod/hosts.yml").read_text())
    there = {f"{rack}{number:02}" for rack, last in ranges for number in range(1, int(last) + 1)}
    shown = {
        (name(page), node)
        for page in PAGES
        for block in FENCE.findall(page.read_text())
        if "inventory/prod" in block
        for node in re.findall(r"\bgpu-\d-\d\d\b|\b(?:gpu|node)\d+\b", block)
    }
    assert len(shown) > 5
    assert {each for each in shown if each[1] not in there} == set()


@pytest.mark.parametrize("page", doc_outputs.PAGES)
def test_page_shows_what_is_printed(page):
    """Refresh with: python -m tests.unit.helpers.doc_outputs."""
    commands = list(doc_outputs.shown((doc_outputs.ROOT / page).read_text()))
    assert commands
    for line, output in commands:
        assert doc_outputs.current(line, output) == output


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Provide a directory with the sites, runs and saved answers that commands of pages name."""
    made = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "inventory", made / "inventory")
    (made / "tests").symlink_to(ROOT / "tests")
    shutil.copytree(ROOT / "tests/fixtures/subnet/ibsim", made / "fabric")
    shutil.copytree(ROOT / "tests/fixtures/switches/sonic-z9664f", made / "switches/leaf01")
    for directory in ("etc/systemd/system", "var/lib/node_exporter/textfile", "states"):
        (made / directory).mkdir(parents=True)
    with contextlib.chdir(made):
        facts = "--kind roce --nodes gpu[01:04] --rails ens1,ens2 --gbps 400 --gpus 2 --mtu 9000"
        assert run(["init", "inventory/dc1", *facts.split()]) == 0
        variables = Path("inventory/dc1/group_vars/all.yml")
        variables.write_text(variables.read_text().replace("bytes: 9000", "bytes: 1500"))
    gate, suite = gate_runs.accepted(4, bad=False), runs.validated(4)
    for data, at in ((gate, "03-10T02:00"), (gate, "03-30T02:00"), (suite, "11-21T09:30")):
        fleet_runs.keep(made, data | {"started": f"2026-{at}+00:00"})
    for hall, first in (("a/20261128-060011", 1), ("b/20261128-060154", 2)):
        text = re.sub(r'"gpu(\d)"', rf'"gpu-{first}-0\1"', json.dumps(suite))
        (made / f"hall-{hall}-validate").mkdir(parents=True)
        (made / f"hall-{hall}-validate/results.json").write_text(text)
    logs = fleet_runs.keep(made, gate | {"started": "2026-11-21T12:36:40+00:00"}) / "logs"
    logs.mkdir()
    shutil.copy(ROOT / "tests/fixtures/nccl/roce-merged-ports.log", logs / "n1.nccl.0")
    return made


# By the verb of a command that needs no node, the exit codes with which it may end.
CODES = {
    "check": (0, 3),
    "compare": (0, 1),
    "explain": (0, 1, 4),
    "history": (0, 1),
    "merge": (0, 1, 4),
    "validate": (4,),  # of states that are not there
}
CODES |= dict.fromkeys(("completion", "init", "lab", "report", "schedule", "schema"), (0,))


def is_offline(line: str) -> bool:
    program, verb, *rest = [*words(line), ""]
    needs = {"init": "--nodes", "lab": "--list", "validate": "--from-states"}
    return program == "rdmaprov" and verb in CODES and needs.get(verb, verb) in (verb, *rest)


# The month of a fleet has runs of its own.
OFFLINE = {
    page: [line for line in commands(page.read_text()) if is_offline(line)]
    for page in PAGES
    if page != PAGE
}


@pytest.mark.program
@pytest.mark.parametrize("page", [page for page in OFFLINE if OFFLINE[page]], ids=name)
def test_commands_that_need_no_node_end_as_their_page_says(page, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    text = page.read_text()
    for line in OFFLINE[page]:
        # Directories of a controller are below the working one; a shell would expand names.
        given = [re.sub("^/(?=etc/|var/)", "", word) for word in words(line)[1:]]
        typed = [str(one) for word in given for one in ("*" in word and place.glob(word)) or [word]]
        code = run(typed)
        said = capsys.readouterr()
        assert code in CODES[typed[0]], (line, said)
        shown = re.search(rf"^\$ {re.escape(line)}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if typed[0] == "check":
            assert (code, said.out) == ((3, shown[1]) if shown else (3 * bool(said.out), said.out))


def test_commands_that_no_test_runs_do_not_grow():
    """They need nodes, a lab or a terminal."""
    left = [
        f"{name(page)}: {line}"
        for page in OFFLINE
        for line in commands(page.read_text())
        if line not in OFFLINE[page]
    ]
    assert len(left) <= 118, "\n".join(left)


@pytest.mark.parametrize("wrong", ["healthy\n", "healthy\n…\n"])
def test_wrong_output_is_noticed(wrong):
    (line, _), *_ = doc_outputs.shown((doc_outputs.ROOT / "README.md").read_text())
    assert doc_outputs.current(line, wrong) != wrong


def test_month_of_a_fleet_shows_what_is_printed(tmp_path):
    """Refresh with: python -m tests.unit.helpers.fleet_month."""
    page = PAGE.read_text()
    assert refreshed(page, FleetMonth(tmp_path)) == page
    metrics = [line for line in page.splitlines() if line.startswith("rdmaprov_")]
    assert len(metrics) == 3
    assert set(metrics) <= set((tmp_path / "rdmaprov.prom").read_text().splitlines())


def test_another_output_is_noticed(tmp_path):
    page = PAGE.read_text()
    start = page[: page.index("## Day 19")]
    wrong = start.replace("10 runs from", "11 runs from")
    assert wrong != start
    assert refreshed(wrong, FleetMonth(tmp_path)) != wrong
