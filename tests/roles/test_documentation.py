"""A module's documentation, its arguments and its role's task say the same."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.loader import fragment_loader, module_loader
from ansible.utils.plugin_docs import get_plugin_docs
from plugins.module_utils.argument_specs import ARGUMENTS
from plugins.module_utils.busy import FORCE_ARGUMENT
from plugins.module_utils.lock import LOCK_ARGUMENT
from plugins.module_utils.roles import ORDER
from tests.unit.helpers.shell import execute
from tools.generate.outputs import outputs

from rdmaprov import __version__
from rdmaprov.inventory.ansible_api import find_plugins

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "src" / "ansible_collections" / "rdmaprov" / "node"
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py"))
TYPES = {"type": "str", "elements": None, "required": False, "choices": None, "default": None}


@pytest.fixture(scope="module")
def documented() -> dict[str, dict[str, Any]]:
    """Return what ansible-doc shows of each module, by its own function."""
    find_plugins()
    found = {}
    for name in (f"rdmaprov.node.{name}" for name in MODULES):
        shown = get_plugin_docs(name, "module", module_loader, fragment_loader, False)
        found[name] = dict(zip(("doc", "examples", "return"), shown, strict=False))
    return found


@pytest.mark.program
def test_ansible_doc_shows_the_same_without_a_warning(documented: dict[str, dict[str, Any]]):
    program = Path(sys.executable).with_name("ansible-doc")
    done = execute([program, "--json", "--type", "module", *documented], check=True)
    assert "WARNING" not in done.stderr, done.stderr
    shown = json.loads(done.stdout)
    assert shown.keys() == documented.keys()
    for name, entry in shown.items():
        assert entry["examples"] == documented[name]["examples"]
        assert entry["doc"]["options"] == documented[name]["doc"]["options"]


@pytest.mark.parametrize("name", MODULES)
def test_module_is_documented_with_an_example_and_its_results(documented, name):
    entry = documented[f"rdmaprov.node.{name}"]
    assert entry["doc"]["short_description"]
    assert yaml.safe_load(entry["examples"])
    assert name == "confirm" or entry["return"]


def test_answer_of_every_role_is_checked_on_the_controller():
    routed = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["plugin_routing"][
        "modules"
    ]
    assert routed == {role: {"action_plugin": "rdmaprov.node.role"} for role in sorted(ORDER)}


@pytest.mark.parametrize("role", ORDER)
def test_documented_options_are_the_arguments(documented: dict[str, dict[str, Any]], role: str):
    options = documented[f"rdmaprov.node.{role}"]["doc"]["options"]
    shown, real = (
        {
            name: {key: option.get(key, otherwise) for key, otherwise in TYPES.items()}
            for name, option in of.items()
        }
        for of in (options, {**ARGUMENTS[role], **LOCK_ARGUMENT, **FORCE_ARGUMENT})
    )
    assert shown == real


@pytest.mark.parametrize("role", ORDER)
def test_example_is_accepted(documented: dict[str, dict[str, Any]], role: str):
    for task in yaml.safe_load(documented[f"rdmaprov.node.{role}"]["examples"]):
        given = {**task[f"rdmaprov.node.{role}"]}
        if given.get("rails") == "{{ fabric_rails }}":
            given["rails"] = [{"netdev": "ens1"}]
        assert ArgumentSpecValidator(ARGUMENTS[role]).validate(given).error_messages == []


@pytest.mark.parametrize("role", ORDER)
def test_roles_task_gives_the_module_all_its_arguments(role: str):
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / "main.yml").read_text())
    given = [task[f"rdmaprov.node.{role}"] for task in tasks if f"rdmaprov.node.{role}" in task]
    assert [set(each) for each in given] == [set(ARGUMENTS[role])]


def test_roles_of_other_lists_are_the_collections():
    """Each but the reboot, which has no module, is in the order in which a play runs them."""
    present = {path.name for path in (ROOT / "roles").iterdir()}
    assert {*ORDER, "reboot"} == present
    page = (ROOT / "docs" / "README.md").read_text()
    assert set(re.findall(r"\(\.\./roles/(\w+)/README\.md\)", page)) == present


@pytest.mark.parametrize("role", [*ORDER, "reboot"])
def test_galaxys_metadata_are_those_of_the_spec(role: str):
    meta = yaml.safe_load((ROOT / "roles" / role / "meta" / "main.yml").read_text())["galaxy_info"]
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    assert meta["role_name"] == role
    assert meta["description"] == spec["argument_specs"]["main"]["short_description"]


def test_version_is_everywhere_that_of_the_package():
    """What `outputs` holds to pyproject.toml is a version at all; the changelog begins with it."""
    assert yaml.safe_load((COLLECTION / "galaxy.yml").read_text())["version"] == __version__
    (status,) = re.findall(r"^\*\*Status:\*\* ([\d.]*\d)", (ROOT / "README.md").read_text(), re.M)
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert status == __version__
    assert newest
    assert newest[1] == __version__


@pytest.mark.parametrize(
    ("path", "text"), outputs().items(), ids=lambda value: getattr(value, "name", "")
)
def test_generated_file_is_current(path: Path, text: str):
    """Refresh with: make generate."""
    assert path.read_text() == text


def test_files_that_contributors_are_sent_to_are_there():
    page = (ROOT / "docs" / "contributing.md").read_text()
    named = set(re.findall(r"`((?:docs|lab|plugins|roles|src|tests|validate)/[\w./-]*)`", page))
    made_up = re.compile("chrony|[A-Z]{3}")  # examples and placeholders, such as ROLE
    assert [each for each in named if not made_up.search(each) and not (ROOT / each).exists()] == []
