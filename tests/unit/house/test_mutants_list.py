"""tests/mutants.yml names what is there, and all that only `make test-lab` has."""

import ast
import functools
from pathlib import Path

import pytest
from tests.unit.helpers.mutants import ALL, PAGE, ROOT, Entry, entries, mutants, page

from rdmaprov.lab.faults import catalogue

LAB, NAMESPACES = ROOT / "tests" / "lab", ROOT / "tests" / "namespaces"
# It is in `make test` itself.
PASS = "test_pass.py"
# Not in `make test`, so a proof has none of these.
ELSEWHERE = {"lab", "browser", "gpu", "long", "hours"}


def marks(node: ast.AST) -> set[str]:
    """Return the markers in a part of a module, as pytest.mark.NAME."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Attribute)
        and each.value.attr == "mark"
    }


@functools.cache
def named_tests(path: Path) -> dict[str, set[str]]:
    """Return a module's tests, each with its own markers and the module's."""
    body = ast.parse(path.read_text()).body
    for_all: set[str] = set()
    found: dict[str, set[str]] = {}
    for each in body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark":
            for_all |= marks(each)
    for each in body:
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
            own = {
                name
                for mark in each.decorator_list
                if not ast.unparse(mark).startswith("pytest.mark.parametrize")
                or path.is_relative_to(NAMESPACES)
                for name in marks(mark)
            }
            found[each.name] = own | for_all
    return found


def test_each_test_of_test_lab_is_listed_and_no_other():
    of_labs = {
        (path.name, name): own
        for path in LAB.glob("test_*.py")
        for name, own in named_tests(path).items()
        if path.name != PASS
    }
    there = {each for each, own in of_labs.items() if "hours" not in own}
    there |= {
        (f"namespaces/{path.name}", name)
        for path in NAMESPACES.glob("test_*.py")
        for name, own in named_tests(path).items()
        if "long" in own
    }
    listed = set()
    for entry in entries():
        for file, names in entry.moved.items():
            whole = [name for where, name in there if where == file]
            listed |= {(file, name) for name in (whole if names == [ALL] else names)}
    assert sorted(there - listed) == []
    elsewhere = {
        (file, name)
        for file, name in listed - {*of_labs}
        if "long" in named_tests(ROOT / "tests" / file).get(name, ())
    }
    assert sorted(listed - {*of_labs} - there - elsewhere) == []


def test_each_fault_of_the_catalogue_has_a_proof():
    assert {name for entry in mutants() for name in entry.faults} == set(catalogue())


@pytest.mark.parametrize("entry", entries(), ids=lambda each: each.kind)
def test_entry_has_a_proof_and_a_line_or_says_why_not(entry: Entry):
    if entry.only:
        assert (entry.proof, entry.file, entry.line, entry.broken) == ("", "", "", "")
        return
    file, _, test = entry.proof.partition("::")
    name, _, case = test.rstrip("]").partition("[")
    found = named_tests(ROOT / file)
    assert name in found
    assert not found[name] & ELSEWHERE
    if case:  # of the one table whose cases have names of their own
        assert f"\n{case}:\n" in (ROOT / file).with_name("faults.yml").read_text()
    lines = [line.strip() for line in (ROOT / entry.file).read_text().splitlines()]
    assert lines.count(entry.line) == 1
    assert entry.broken not in ("", entry.line)


def test_kinds_are_unique():
    kinds = [entry.kind for entry in entries()]
    assert len(set(kinds)) == len(kinds)


def test_table_is_current():
    text = PAGE.read_text()
    assert page(text) == text, "run: python -m tests.unit.helpers.mutants"
