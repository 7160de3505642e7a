"""A good site for tests to change, and the wrong ones of tests/fixtures/wrong_sites.yml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

MARK = "# <-"
GOOD = {
    "hosts.yml": """\
---
nodes:
  hosts:
    n1: {unit: 1}
    n2: {unit: 2}
""",
    "group_vars/all.yml": """\
---
fabric_kind: roce
fabric_link_gbps: 400
fabric_rails:
  - {netdev: ens1, address: "198.18.0.{{ unit }}/24"}
  - {netdev: ens2, address: "198.18.1.{{ unit }}/24"}
""",
}
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


def wrong_sites() -> list[Wrong]:
    entries: list[dict[str, Any]] = yaml.safe_load(FIXTURE.read_text())
    return [Wrong(**entry) for entry in entries]
