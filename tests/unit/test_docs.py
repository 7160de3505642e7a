"""The documentation is true: links lead somewhere, commands exist, references are as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.validate import document as checks

from rdmaprov.cli import cli, document
from rdmaprov.exit_codes import MEANINGS, ExitCode

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("roles/*/README.md")])
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
PROGRAMS = ("rdmaprov", "make", "pytest")


def name(path):
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
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


def commands(text: str) -> Iterator[str]:
    """Yield the lines of fenced blocks that a reader may type, without what a shell adds."""
    for block in FENCE.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        prompts = any(line.startswith("$ ") for line in lines)
        for line in lines:
            if prompts and not line.startswith("$ "):
                continue  # what a command prints
            typed = re.sub(r"^(\$ +)?(\.venv/bin/)?", "", line)
            if typed.split(" ")[0] in PROGRAMS:
                yield typed


def wrong_command(line: str, known: dict[str, frozenset[str]]) -> str:
    """Return what is wrong with a command line, empty if it parses."""
    words = shlex.split(line, comments=True)
    for stop in ("|", ">", ">>", "&&", ";", "<"):
        words = words[: words.index(stop)] if stop in words else words
    program, *rest = words
    if program == "rdmaprov":
        return wrong_verb(cli, rest, None)
    options = {word.partition("=")[0] for word in rest if word.startswith("-")}
    if program == "make":
        options = {word for word in rest if not re.match(r"[A-Z_]+=", word)}
    missing = sorted(options - known[program])
    return f"{line}: {program} has no {', '.join(missing)}" if missing else ""


def wrong_verb(command: click.Command, words: list[str], above: click.Context | None) -> str:
    context = click.Context(
        command, parent=above, info_name=command.name, **command.context_settings
    )
    context.allow_interspersed_args = command.allow_interspersed_args
    try:
        given, rest, _ = command.make_parser(context).parse_args(list(words))
        for parameter in command.params:
            value = given.get(parameter.name or "")
            if isinstance(parameter.type, click.Choice) and isinstance(value, str):
                parameter.type.convert(value, parameter, context)
            required = isinstance(parameter, click.Argument) and parameter.required
            is_given = isinstance(value, str | tuple) and value
            if required and not is_given and not given.get("help"):
                return f"{words}: {parameter.name} is missing"
        if isinstance(command, click.Group):
            if not rest:
                return ""
            chosen = command.get_command(context, rest[0])
            if chosen is None:
                return f"{command.name} has no verb {rest[0]}"
            return wrong_verb(chosen, rest[1:], context)
    except click.UsageError as error:
        return f"{context.command_path} {words}: {error.format_message()}"
    return f"{words}: {rest} is too much" if rest else ""


@pytest.fixture(scope="session")
def known():
    """Return the options of pytest with our plugin, and the Makefile's targets."""
    command = [sys.executable, "-m", "pytest", "-p", "rdmaprov.validate.plugin", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    options = re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", said)
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {"pytest": frozenset(options), "make": frozenset(targets)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page, known):
    found = [wrong_command(line, known) for line in commands(page.read_text())]
    assert [wrong for wrong in found if wrong] == []


@pytest.mark.parametrize(
    "line",
    [
        "rdmaprov chekc inventory/lab",
        "rdmaprov apply inventory/lab --drited",
        "rdmaprov apply inventory/lab --reboot perhaps",
        "rdmaprov apply",
        "rdmaprov lab up --no-such-option",
        "rdmaprov report one two",
        "pytest validate/ --no-such-option=all",
        "make no-such-target",
    ],
)
def test_wrong_command_is_found(line, known):
    assert list(commands(f"```\n$ .venv/bin/{line}\n```\n")) == [line]
    assert wrong_command(line, known)


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


def test_command_line_reference_is_up_to_date():
    """Refresh with: python -m rdmaprov.cli.document > docs/cli.md."""
    assert (ROOT / "docs" / "cli.md").read_text() == document.markdown()


def test_checks_reference_is_up_to_date():
    """Refresh with: python -m tests.validate.document > docs/checks.md."""
    assert (ROOT / "docs" / "checks.md").read_text() == checks.markdown()


def test_every_exit_code_has_a_meaning():
    assert list(MEANINGS) == list(ExitCode)


def test_every_page_is_in_the_index():
    index = {
        target.partition("#")[0] for page, target in links() if page == ROOT / "docs/README.md"
    }
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"}
    assert pages <= index


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
