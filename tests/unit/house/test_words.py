"""Texts say it in the words of docs/glossary.md, and one class name has one meaning."""

import ast
import csv
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# What must not be written, from the start of a word and in lower case → what to write.
with Path(__file__).with_name("old_words.csv").open(newline="") as opened:
    OLD = {row["old"]: row["new"] for row in csv.DictReader(opened)}
# Words to avoid of the glossary that also have a meaning of their own; others must not be written.
ORDINARY = re.split(
    ", ",
    "accused, admin, ask, attestation, bad, bastion, box, card, come, described, description, "
    "done, due, exception, free, good, here, hosts, hunt, ignored, in effect, interface, "
    "keeper, live, look, lost, machine, maximum, meet, minimum, most, partial, peer, "
    "persistent, phase, plane, proof, rejected, remove, said, search, server, sign, signer, "
    "silent, speed, told, trouble, utilization, wanted, watchdog, way, what to do, written, "
    "wrong, ToR",
)
ROW = re.compile(r"^\| (.+?) \| .+ \| (.+?) \|$", re.MULTILINE)
OLD |= {
    rf"{word.strip()}\b": meant
    for meant, column in ROW.findall((ROOT / "docs/glossary.md").read_text())
    for word in re.sub(r"[^,]*\([^)]*\)", "", column).split(",")  # a bracket has a context
    if word.strip() not in ("", "not", *ORDINARY)
}
# A docstring's argument, attribute or error is told by a noun; these alone tell nothing.
EMPTY = re.compile(
    r"(?:\b(?:it|its|they|them|theirs|that|these|those|ones?|is|are|has|have|do|does|did|not)\b\s*)+"
)
ENTRY = re.compile(r"^    \w[\w, ]*: (.+)\.$", re.MULTILINE)
# All begin as words do: to look for any of them first is quick, and mostly enough.
ANY = re.compile(rf"\b(?:{'|'.join(OLD)})")
REWRITTEN = (
    *("README.md", "CHANGELOG.md", "SECURITY.md", "bench/*.py", "galaxy.yml", "meta/*", "tools/*"),
    "docs/**/*.md",
    "docs/*.json",
    "inventory/**/*.yml",
    "lab/demo.py",
    "lab/faults/**/*",
    "playbooks/**/*.yml",
    "plugins/**/*.py",
    "roles/**/*",
    "src/rdmaprov/**/*.j2",
    "src/rdmaprov/**/*.py",
    "validate/*.py",
)
# The glossary quotes old words.
LEFT_OUT = {"docs/glossary.md"}


def texts() -> list[str]:
    found = {
        str(path.relative_to(ROOT))
        for glob in REWRITTEN
        for path in ROOT.glob(glob)
        if path.is_file() and path.suffix != ".pyc"
    }
    return sorted(found - LEFT_OUT)


def old_words(text: str) -> list[str]:
    """Return each old phrase of a text with the words to use; lines and literals may break it."""
    joined = re.sub(r'["\'*]\s*\n\s*f?["\'*]|\s*\n[\s#>|]*', " ", text)
    joined = re.sub(r"\s+", " ", joined)
    if not ANY.search(joined.lower()):
        return []
    return [
        f"{hit.group()}: write: {new}"
        for old, new in OLD.items()
        for hit in re.finditer(rf"\b(?:{old})", joined, re.IGNORECASE)
    ]


def test_texts_have_no_old_words():
    """One test, as a thousand cost seconds: each file with its hits is in what pytest prints."""
    found = {}
    for path in texts():
        text = (ROOT / path).read_text(encoding="utf-8")
        if path == "CHANGELOG.md":  # it quotes the names that were changed
            text = re.sub(r"`[^`]*`", "", text)
        if hits := old_words(text):
            found[path] = hits
    assert found == {}
    assert len(texts()) > 900


@pytest.mark.parametrize(
    "text",
    [
        "Begin no more nodes when more than so many of a batch failed",
        "An interrupted run is gone on\n    with by the next.",
        '"skipped, which proves"\n    " nothing"',
        "# the way\n# to the node",
        "A reboot is due.",
        "The switch does not say that ECN is on, Wanted {3: 26}.",
        "the result is not told: it could not\nbe told",
        "A safety\n    # net",
    ],
)
def test_old_words_are_found(text):
    assert old_words(text)


def empty_entries(source: str) -> list[str]:
    """Return the entries of a module's docstrings that have no noun, such as `command: it.`."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    hits = [hit for text in docstrings for hit in ENTRY.finditer(text)]
    return [hit[0].strip() for hit in hits if EMPTY.fullmatch(hit[1])]


def test_docstrings_tell_arguments_by_nouns():
    found = {
        path: hits
        for path in texts()
        if path.endswith(".py")
        and (hits := empty_entries((ROOT / path).read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("entry", ["command: it.", "plan: theirs.", "UsageError: they do not."])
def test_argument_without_a_noun_is_found(entry):
    assert empty_entries(f'"""Return.\n\nArgs:\n    {entry}\n    to: the end.\n"""') == [entry]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Problem", "src/rdmaprov/problem.py"),
        ("Finding", "src/rdmaprov/finding/finding.py"),
        ("Judgement", "src/rdmaprov/bandwidth/floor_model.py"),
    ],
)
def test_word_of_a_report_is_one_class(name: str, module: str):
    found = (
        path for each in ("src", "plugins", "validate") for path in (ROOT / each).rglob("*.py")
    )
    defined = re.compile(rf"^\s*class {name}\b", re.MULTILINE)
    assert [path for path in found if defined.search(path.read_text())] == [ROOT / module]


def test_class_of_the_controller_has_a_name_of_its_own():
    names = Counter(
        name
        for path in (ROOT / "src" / "rdmaprov").rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert [name for name, count in names.items() if count > 1] == []
