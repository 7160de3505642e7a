"""The suite for readers: docs/checks.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tables import cases
from tests.validate.runner import ABSENT, SKIPPED, table
from tests.validate.test_gpu_health import HEALTHY

from rdmaprov.lab import faults as lab_faults

ROOT = Path(__file__).resolve().parents[2]
_HEAD = cases(__file__, "head")


def checks() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
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
    faults = table("faults.yml")
    by_test: dict[str, list[str]] = {}
    for name in sorted(faults, key=lambda name: not faults[name].get("lab")):
        unknown = faults[name].get("unknown")
        named = unknown if isinstance(unknown, dict) else {}
        for test in {**faults[name].get("red", {}), **named}:
            by_test.setdefault(test, []).append(name)
    return by_test


def markdown() -> str:
    lines, faults, real = [_HEAD], found(), set(lab_faults.catalogue())
    quiet = silent()
    for file, subject, tests in checks():
        lines += ["", f"## {file}", "", subject, ""]
        lines += ["| check | requires | finds | silent on |", "|---|---|---|---|"]
        for test, sentence in tests:
            names = faults.get(f"{file}::{test}", [])
            finds = ", ".join(f"`{name}`{' (of the lab)' * (name in real)}" for name in names)
            finds = finds or "see [acceptance.md](acceptance.md)"
            lines.append(
                f"| `{test}` | {sentence} | {finds} | {quiet.get(f'{file}::{test}', '')} |"
            )
    return "\n".join([*lines, *_alarms()]) + "\n"


def silent() -> dict[str, str]:
    """Return on how many nodes and captures each test was silent, by FILE::TEST.

    On a node whose kind of fabric the test judges, neither red nor unknown: test_faults.py asks so.
    """
    nodes = [
        (fault.get("infiniband", False), {*fault["red"], *fault.get("unknown", ())})
        for fault in table("faults.yml").values()
        if "do" in fault and fault.get("unknown") != "every"
    ]
    alarms = table("false_alarms.yml").values()
    nodes += [(False, {*each.get("unknown", ())}) for each in alarms if "by" not in each]
    counts = {}
    logs = ROOT / "tests/fixtures/kernel_log/whole.tsv"
    whole = [row.split("\t")[-1] for row in logs.read_text().splitlines()]
    for file, _, tests in checks():
        text = (ROOT / "validate" / file).read_text()
        for test, _ in tests:
            name = f"{file}::{test}"
            if file == "test_acceptance.py":
                continue
            kinds = {*([] if name in SKIPPED else [False]), *([True] if name in ABSENT else [])}
            count = sum(kind in kinds and name not in named for kind, named in nodes)
            said = [f"{count} nodes"] if count else []
            if re.search(rf'def {test}\(.*\n    """.*\n    _judge\(', text):
                said.append(f"{len(HEALTHY)} captures of GPUs")
            if file == "test_kernel_log.py":
                said.append(f"{whole.count('none')} whole logs")
            counts[name] = ", ".join(said)
    return counts


_ALARMS = cases(__file__, "alarms")
_BY = {"counters": "accept, watch", "floor": "accept", "gpu": "accept"}


def _alarms() -> Iterator[str]:
    yield _ALARMS
    for name, alarm in table("false_alarms.yml").items():
        rule = (
            "; ".join(
                f"{key} {', '.join(value) if isinstance(value, list) else value}"
                for key, value in alarm["plain"].items()
            )
            .replace("|", "\\|")
            .replace("/.answers/", "")
        )
        good = "unknown" if alarm.get("unknown") else "silent"
        source = alarm["source"].removeprefix("https://github.com/")
        if source != alarm["source"]:
            source = f"[{source}]({alarm['source']})"
        red = alarm["red"] if isinstance(alarm["red"], list) else [alarm["red"]]
        found = ", ".join(f"`{each.rpartition('::')[2]}`" for each in red)
        by = alarm.get("by", "validate")
        by = _BY.get(by, by)
        row = [source, alarm["said"], f"`{rule}`", alarm["differs"], by, good, found]
        yield f"| `{name}` | {' | '.join(row)} |"


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
