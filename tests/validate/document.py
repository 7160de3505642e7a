"""The suite for readers: docs/checks.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rdmaprov.lab import faults as lab_faults

ROOT = Path(__file__).resolve().parents[2]
_HEAD = """\
# The checks

Every check of `validate/`, what it requires, and the faults that it is tested to find.
`rdmaprov lab fault` makes those *of the lab* on a real kernel; the others are made on a simulated
node (`tests/validate/faults.yml`). [suite.md](suite.md) explains how checks decide, and
[validate.md](validate.md) how to run them. `python -m tests.validate.document` writes this page
from the tests."""


def checks() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield the suite's files: name, what it is about, and its tests with what each requires."""
    for path in sorted((ROOT / "validate").glob("test_*.py")):
        tree = ast.parse(path.read_text())
        tests = [
            (each.name, _sentence(each))
            for each in tree.body
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
        ]
        yield path.name, _sentence(tree), tests


def _sentence(node: ast.FunctionDef | ast.Module) -> str:
    """Return the first line of a docstring, which is one sentence in this project."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def found() -> dict[str, list[str]]:
    """Return the faults that each test finds, by FILE::TEST; those of the lab first."""
    table: dict[str, dict[str, Any]] = yaml.load(
        Path(__file__).with_name("faults.yml").read_text(), Loader=yaml.CSafeLoader
    )
    by_test: dict[str, list[str]] = {}
    for name in sorted(table, key=lambda name: not table[name].get("lab")):
        for test in {**table[name].get("red", {}), **_named(table[name].get("unknown"))}:
            by_test.setdefault(test, []).append(name)
    return by_test


def _named(unknown: object) -> dict[str, str]:
    return unknown if isinstance(unknown, dict) else {}


def markdown() -> str:
    """Return docs/checks.md."""
    lines, faults, real = [_HEAD], found(), set(lab_faults.catalogue())
    for file, subject, tests in checks():
        lines += ["", f"## {file}", "", subject, ""]
        lines += ["| check | requires | finds |", "|---|---|---|"]
        for test, sentence in tests:
            names = faults.get(f"{file}::{test}", [])
            finds = ", ".join(f"`{name}`{' (of the lab)' * (name in real)}" for name in names)
            lines.append(
                f"| `{test}` | {sentence} | {finds or 'see [acceptance.md](acceptance.md)'} |"
            )
    return "\n".join([*lines, *_alarms()]) + "\n"


_ALARMS = """
## False alarms

What turned good nodes red elsewhere, or here, and the real fault next door, which differs in
one thing. The rule that raised the alarm is red on both; the suite is silent on the first and finds
the second (`tests/validate/false_alarms.yml`).

| alarm | source | what was said | by the rule | good | found beside it |
|---|---|---|---|---|---|"""


def _alarms() -> Iterator[str]:
    """Yield the table of false alarms."""
    text = Path(__file__).with_name("false_alarms.yml").read_text()
    yield _ALARMS
    for name, alarm in yaml.load(text, Loader=yaml.CSafeLoader).items():
        rule = "; ".join(
            f"{key} {value}".replace("|", "\\|") for key, value in alarm["plain"].items()
        )
        good = "unknown" if alarm.get("unknown") else "silent"
        source = alarm["source"].removeprefix("https://github.com/")
        if source != alarm["source"]:
            source = f"[{source}]({alarm['source']})"
        found = alarm["red"].partition("::")[2]
        yield f"| `{name}` | {source} | {alarm['said']} | `{rule}` | {good} | `{found}` |"


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
