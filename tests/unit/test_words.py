"""Texts say it in the words of docs/glossary.md: the worst old phrases do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What must not be written → what to write.
OLD = {
    r"\bso many\b": "the number",
    r"\bsuch as it\b": "say what it is",
    r"\bwhat leaves\b|\bleaves such a\b": "likely causes",
    r"\bgo(?:ne|es)? on with\b|\bthe next run goes on\b": "resume",
    r"\bsay the result alone\b": "print only the result",
    r"\bsay also what\b": "also print",
    r"\bas it comes\b": "stock, default",
    r"\bproves? nothing\b|\bnothing proven\b": "not verified",
    r"\bis not possible\b": "must be …",
    r"\bbegin no more\b|\bno further node is begun\b|\bnot begun\b": "stop starting; not started",
    r"\breboots? (?:is|are) due\b|\breboot due\b|\bwhy one is due\b": "reboot required",
    r"\bcom(?:es|e) late\b|\bcame late\b": "straggler",
    r"\bway to the node\b|\bin its way\b": "management path",
    r"\bdo(?:es)? not get along\b": "bad pair",
    r"\bwho answers whom\b": "rail reachability",
    r"\bcould not (?:be told|tell)\b|\bcannot be told\b": "unknown",
    r"\bcosts one look\b": "is only surveyed",
    r"\bas described\b": "in the state that the site describes",
    r"\bcensus\b": "preflight",
    r"\bsegments were sent again\b": "TCP retransmissions",
    r"\bdid not come\b|\bwho does not come\b": "did not join",
    r"\bwho is to blame\b|\bculprit\b": "what is at fault",
    r"\bis to be changed\b|\bwhat is to be\b": "would change, pending",
    r"\bdo not go together\b": "exclude each other",
    r"\bdespite-state\b": "--ignore-validate",
    r"\bheed(?:s|ed)?\b": "respect",
    r"\bhalf done\b": "incomplete",
    r"\bcannot be reached\b": "unreachable",
    r"\bnot proven\b": "not verified",
    r", wanted \{": "expected",
    r"\bwrite such as\b": "write one, such as",
    r"\bdoes not say that ECN\b": "ECN bits are 00 (Not-ECT)",
    r"\bthe lossless one is\b": "but fabric_lossless_priority is",
    r"\bis at rail \S+ and at rail\b": "is listed on rails … and …",
    r"\bholds rail\b": "rails … share",
    r"\bmade what\b|\bmakes? nodes what\b": "brought to the state",
}
REWRITTEN = (
    "README.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/*.json",
    "inventory/**/*.yml",
    "lab/demo.py",
    "lab/faults/**/*",
    "playbooks/*.yml",
    "plugins/**/*.py",
    "roles/**/*",
    "src/rdmaprov/**/*.j2",
    "src/rdmaprov/**/*.py",
    "validate/*.py",
)
# The glossary quotes old words.
LEFT_OUT = {"docs/glossary.md"}


def texts() -> list[str]:
    """Return the files to look at."""
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
    return [
        f"{hit.group()}: write: {new}"
        for old, new in OLD.items()
        for hit in re.finditer(old, joined, re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", texts())
def test_text_has_no_old_words(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    if path == "CHANGELOG.md":  # it quotes the names that were changed
        text = re.sub(r"`[^`]*`", "", text)
    assert old_words(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Begin no more nodes when more than so many of a batch failed",
        "An interrupted run is gone on\n    with by the next.",
        '"skipped, which proves"\n    " nothing"',
        "# the way\n# to the node",
        "A reboot is due.",
        "the result is not told: it could not\nbe told",
    ],
)
def test_old_words_are_found(text):
    assert old_words(text)
