"""A module's documentation, its arguments and its role's task say the same."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from plugins.module_utils.arguments import ROLES

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py"))
TYPES = {"type": "str", "elements": None, "required": False, "choices": None, "default": None}


@pytest.fixture(scope="module")
def documented() -> dict[str, dict[str, Any]]:
    program = Path(sys.executable).with_name("ansible-doc")
    names = [f"rdmaprov.node.{name}" for name in MODULES]
    done = subprocess.run(
        [program, "--json", "--type", "module", *names], capture_output=True, text=True, check=True
    )
    assert "WARNING" not in done.stderr, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_module_is_documented_with_an_example_and_its_results(
    documented: dict[str, dict[str, Any]], name: str
):
    entry = documented[f"rdmaprov.node.{name}"]
    assert entry["doc"]["short_description"]
    assert yaml.safe_load(entry["examples"])
    assert name == "confirm" or entry["return"]


@pytest.mark.parametrize("role", ROLES)
def test_documented_options_are_the_arguments(documented: dict[str, dict[str, Any]], role: str):
    options = documented[f"rdmaprov.node.{role}"]["doc"]["options"]
    arguments = importlib.import_module(f"plugins.module_utils.roles.{role}").ARGUMENTS
    shown, real = (
        {
            name: {key: option.get(key, otherwise) for key, otherwise in TYPES.items()}
            for name, option in of.items()
        }
        for of in (options, arguments)
    )
    assert shown == real


@pytest.mark.parametrize("role", ROLES)
def test_roles_task_gives_the_module_arguments_that_it_has(role: str):
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / "main.yml").read_text())
    given = [task[f"rdmaprov.node.{role}"] for task in tasks if f"rdmaprov.node.{role}" in task]
    assert len(given) == 1
    assert set(given[0]) <= set(ROLES[role].ARGUMENTS)
    assert {n for n, a in ROLES[role].ARGUMENTS.items() if a.get("required")} <= set(given[0])
