"""A good site for tests to change, and the wrong ones of tests/fixtures/wrong_sites.yml."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.tables import cases

from rdmaprov.inventory import Fleet
from rdmaprov.problem import Problem
from rdmaprov.resources import data_dir

MARK = "# <-"
GOOD: dict[str, str] = cases(__file__, "good")
FIXTURE = Path(__file__).parents[2] / "fixtures" / "wrong_sites.yml"


def write(site: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return site


@dataclass(frozen=True)
class Wrong:
    """One wrong site, and the problem that must be found in it."""

    id: str
    rule: str
    says: str
    vars: str | None = None
    hosts: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    at: str = ""
    line: int = 0
    shift: int = 0

    def all_files(self) -> dict[str, str]:
        files = {**GOOD, **self.files}
        if self.vars is not None:
            files["group_vars/nodes.yml"] = self.vars
        if self.hosts is not None:
            files["hosts.yml"] = self.hosts
        return files

    def place(self) -> tuple[str, int]:
        for name, text in self.all_files().items():
            for number, line in enumerate(text.splitlines(), start=1):
                if MARK in line:
                    return name, self.line or number + self.shift
        return self.at, self.line or 1


def lines(fleet: Fleet, problems: Iterable[Problem]) -> list[str]:
    """Return problems without their columns: Ansible's loader has none of an empty list."""
    texts = (problem.text(fleet.site) for problem in problems)
    return [re.sub(r"^([^:]+:\d+):\d+:", r"\1:", text) for text in texts]


@cache
def raw_spec(role: str) -> dict[str, dict[str, Any]]:
    text = (data_dir("roles") / role / "meta" / "argument_specs.yml").read_text()
    written = yaml.load(text, Loader=yaml.CSafeLoader)
    options: dict[str, dict[str, Any]] = written["argument_specs"]["main"]["options"]
    return options


@cache
def wrong_sites() -> tuple[Wrong, ...]:
    entries: list[dict[str, Any]] = yaml.load(FIXTURE.read_text(), Loader=yaml.CSafeLoader)
    return tuple(Wrong(**entry) for entry in entries)
