"""Dynamic inventories: the plugin's or script's own reason, once; and the example of the docs."""

import re
from pathlib import Path

import pytest
from ansible import constants
from ansible.parsing.vault import VaultLib, VaultSecret
from tests.tables import cases
from tests.unit.helpers import sites

from rdmaprov import contract
from rdmaprov.inventory import load_site

DOCS = Path(__file__).parents[3] / "docs/clusters.md"
LISTED = '{"nodes": {"hosts": ["n7"]}, "_meta": {"hostvars": {"n7": {"unit": 7}}}}'
# A file of a site → what its one problem says, and what to do.
WRONG = cases(__file__, "wrong")


def write(tmp_path: Path, name: str, text: str) -> Path:
    site = sites.write(tmp_path / "site", {**sites.GOOD, name: text})
    (site / name).chmod(0o644 if name == "plain.py" else 0o755)
    return site


@pytest.mark.parametrize("name", WRONG)
def test_own_reason_of_an_inventory_plugin_or_script_is_the_one_problem(tmp_path: Path, name: str):
    text, reason, remedy = WRONG[name]
    (found,) = load_site(write(tmp_path, name, text)).problems
    assert found.position.file.endswith(name)
    assert reason in found.message
    assert all(words in found.remedy for words in remedy.split(": "))


def test_script_that_lists_hosts_adds_them(tmp_path: Path):
    fleet = load_site(write(tmp_path, "listing", f"#!/bin/sh\necho '{LISTED}'\n"))
    assert "n7" in [node.name for node in fleet.nodes]
    assert contract.problems(fleet) == []


def test_example_of_the_documentation_makes_groups(tmp_path: Path):
    found = re.search(r"```yaml\n# inventory/prod/(zz_\w+\.yml)\n(.*?)```", DOCS.read_text(), re.S)
    assert found is not None
    leaf = {"host_vars/n1.yml": "fabric_leaf: leaf3\n"}
    write(tmp_path, found[1], found[2])
    fleet = load_site(sites.write(tmp_path / "site", leaf), "leaf_leaf3")
    assert [node.name for node in fleet.nodes] == ["n1"]
    assert contract.problems(fleet) == []


@pytest.mark.parametrize(
    ("password", "reason"),
    cases(__file__, "wrong_vault_password_is_reported_differently_from_none"),
)
def test_wrong_vault_password_is_reported_differently_from_none(tmp_path, password, reason):
    secret = [(constants.DEFAULT_VAULT_IDENTITY, VaultSecret(b"right"))]
    site = write(tmp_path, "host_vars/n1.yml", VaultLib(secret).encrypt("a_token: x\n").decode())
    file = tmp_path / "password"
    file.write_text(f"{password}\n")
    problems = load_site(site, None, file if password else None).problems
    assert [each.message for each in problems] == ([reason] if reason else [])


def test_missing_kind_is_the_one_problem_and_not_what_follows_from_it(tmp_path: Path):
    text = sites.GOOD["group_vars/all.yml"].replace(
        "fabric_kind: roce\n", "fabric_mtu_bytes: 9000\n"
    )
    problems = contract.problems(load_site(write(tmp_path, "group_vars/all.yml", text)))
    assert {each.variable for each in problems} == {"fabric_kind"}


def test_rate_with_its_unit_is_refused_with_the_number_to_write(tmp_path: Path):
    text = sites.GOOD["group_vars/all.yml"].replace("400", "400G")
    (found,) = contract.problems(load_site(write(tmp_path, "group_vars/all.yml", text)))
    assert (found.message, found.remedy) == ("'400G' is not a whole number", "write 400")
