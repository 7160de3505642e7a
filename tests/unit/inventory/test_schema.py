"""The roles' argument specs, their defaults, and what is generated from them."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from plugins.module_utils.roles import ORDER
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.sites import raw_spec

from rdmaprov.cli import run
from rdmaprov.contract import ranges
from rdmaprov.contract.json_schema import json_schema
from rdmaprov.inventory import load_site, schema
from rdmaprov.inventory.schema import Option, Role
from rdmaprov.resources import data_dir

SCHEMA = schema.load_shipped()
ROLES = list(SCHEMA.roles.values())
OPTIONS = list(SCHEMA.variables.values())
ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests/fixtures/sites"


def test_roles_are_those_that_a_play_runs_and_the_reboot():
    assert sorted(SCHEMA.roles) == sorted([*ORDER, "reboot"])


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_default_is_in_the_spec_or_derived_from_other_variables(role: Role):
    specified = {key: o["default"] for key, o in raw_spec(role.name).items() if "default" in o}
    path = data_dir("roles") / role.name / "meta" / "derived.yml"
    derived = yaml.safe_load(path.read_text()) if path.is_file() else {}
    assert not specified.keys() & derived.keys()
    assert {**specified, **derived} == dict(role.defaults)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_template_is_no_default_of_a_spec(role: Role):
    """It would be of no type that ansible-doc and antsibull-docs know."""
    assert "{{" not in json.dumps(raw_spec(role.name))


# What the controller's launchers, schedulers and signers read, and no program comes from.
ONLY_READ = {
    "fabric_certificate_drains",
    *("scheduler_kind", "scheduler_wait_s", "fabric_leaf", "fabric_rack", "fabric_gpu_count"),
    *("fabric_maintenance_unit", "fabric_relay"),
    *("fabric_certificate_days", "fabric_certificate_on_nodes"),
    *("torch_runtime_kind", "torch_runtime_launcher", "torch_runtime_python"),
    *("torch_runtime_launch_image", "torch_runtime_launch_python"),  # on nodes, by Slurm
}
STARTS = ("scheduler/*", "acceptance/launchers/*", "certificate/*", "cli/accept_certificate")


def test_variables_that_act_on_the_controller_are_marked_and_listed():
    package = ROOT / "src/rdmaprov"
    texts = [path.read_text() for each in STARTS for path in package.glob(f"{each}.py")]
    read = {
        word for text in texts for word in re.findall(r'"(\w+)"', text)
    } & SCHEMA.variables.keys()
    marked = {each.name for each in OPTIONS if "Acts on the controller." in each.description}
    named = {name for name in SCHEMA.variables if re.search("_command$|_options$|ate_key$", name)}
    named -= {"gpu_health_command"}  # which nodes start
    assert (read - ONLY_READ) | named == marked
    page = (ROOT / "docs/strangers.md").read_text()
    _, _, table = page.partition("**What a variable can start on the controller.**")
    rows = table.partition("\n## ")[0].split("|---|")[-1]
    assert set(re.findall(r"`(\w+)`", rows)) & SCHEMA.variables.keys() == marked


def test_variables_are_named_after_their_roles():
    def is_right(option: Option) -> bool:
        return bool(re.fullmatch(rf"{option.role}_[a-z0-9_]+", option.name))

    assert [option.name for option in OPTIONS if not is_right(option)] == []


def test_variables_have_a_meaning_and_no_default_if_required():
    unexplained = [each.name for each in OPTIONS if not each.description.strip().endswith(".")]
    both = [each.name for each in OPTIONS if each.required and each.has_default]
    assert (unexplained, both) == ([], [])


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_readme_names_every_variable(role: Role):
    text = (data_dir("roles") / role.name / "README.md").read_text()
    assert set(re.findall(r"^- `(\w+)`", text, re.MULTILINE)) == set(role.variables)


@pytest.mark.parametrize("name", ["prod", "ib"])
@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_ansible_accepts_what_a_good_site_becomes(role: Role, name: str):
    values = load_site(data_dir("inventory") / name).nodes[0].values
    mine = {key: values[key] for key in role.variables if key in values}
    assert ArgumentSpecValidator(raw_spec(role.name)).validate(mine).error_messages == []


def test_defaults_are_typed_in_the_good_site(tmp_path: Path):
    node = load_site(sites.write(tmp_path, sites.GOOD)).nodes[0]
    optional = {o.name for o in OPTIONS if not o.has_default and not o.required}
    assert set(node.values) == set(SCHEMA.variables) - optional


def test_derived_defaults(tmp_path: Path):
    node = load_site(sites.write(tmp_path, sites.GOOD)).nodes[0]
    assert node.get("nccl_ib_tc") == node.get("roce_qos_tos") == 106
    assert node.get("roce_qos_dscp_priorities") == {26: 3, 48: 6}
    assert node.get("roce_qos_tc_percent") == {0: 50, 3: 50}
    assert node.get("mtu_rdma_bytes") == 4096
    assert node.get("peermem_mode") == "off"
    assert node.get("nccl_cross_nic") == 0


def test_json_schema_is_one_and_accepts_the_reference_sites(capsys: pytest.CaptureFixture[str]):
    assert run(["schema", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed == json_schema(SCHEMA)
    files = [*data_dir("inventory").glob("*/*_vars/*.yml"), *FIXTURES.glob("*/*_vars/*.yml")]
    assert {path.parts[-3] for path in files} >= {"prod", "ib", "lab"}
    for path in files:
        assert wrong_places(path.read_text()) == [], path


def wrong_places(text: str) -> list[str]:
    """Return where a file does not match the JSON Schema, as an editor would show it."""
    content = json.loads(json.dumps(yaml.safe_load(text)))  # keys are texts, as in an editor
    validator = jsonschema.Draft202012Validator(json_schema(SCHEMA))
    return [error.json_path for error in validator.iter_errors(content)]


@pytest.mark.parametrize(
    ("right", "wrong"), cases(__file__, "json_schema_knows_names_ranges_and_choices")
)
def test_json_schema_knows_names_ranges_and_choices(right: str, wrong: str):
    assert wrong_places(right) == []
    assert len(wrong_places(wrong)) == 1


@pytest.mark.parametrize("name", [*ranges.VALUES, *ranges.PAIRS])
def test_ranges_are_of_variables_that_exist(name: str):
    assert name in SCHEMA.variables


VARS = [
    case for case in sites.wrong_sites() if case.vars and case.rule.startswith(("range.", "names."))
]


@pytest.mark.parametrize("case", VARS, ids=lambda case: case.id)
def test_json_schema_refuses_what_check_refuses_by_name_or_range(case: sites.Wrong):
    # A JSON Schema does not know which names are near, nor what other variables have.
    assert wrong_places(str(case.vars)) or case.rule in ("range.tables", "names.near")


def test_schema_prints_every_variable(capsys: pytest.CaptureFixture[str]):
    assert run(["schema"]) == 0
    out = capsys.readouterr().out
    assert [name for name in SCHEMA.variables if f"{name}: " not in out] == []
