"""A site is loaded as Ansible loads it."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible.vars.manager import VariableManager
from tests.tables import cases
from tests.unit.helpers import sites

from rdmaprov.inventory import SiteError, load_site
from rdmaprov.inventory.ansible_api import Engine, Inventory
from rdmaprov.inventory.expression import parse
from rdmaprov.problem import Position
from rdmaprov.resources import data_dir

# What VariableManager adds of its own.
MAGIC = {
    "ansible_facts", "ansible_playbook_python", "group_names", "groups", "inventory_dir",
    "inventory_file", "inventory_hostname", "inventory_hostname_short", "omit", "playbook_dir",
    "ansible_config_file", "ansible_local", "ansible_version", "hostvars", "environment",
}  # fmt: skip
LAYERS = cases(__file__, "layers")


def ansible_variables(site: Path) -> dict[str, dict[str, Any]]:
    loader = DataLoader()
    inventory = InventoryManager(loader, sources=[str(site)])
    manager = VariableManager(loader, inventory)
    return {name: manager.get_vars(host=host) for name, host in inventory.hosts.items()}


def test_variables_are_those_of_ansibles_variable_manager(tmp_path: Path):
    site = sites.write(tmp_path / "site", LAYERS)
    mine = Inventory(site)
    mine.parse()
    for name, theirs in ansible_variables(site).items():
        host = mine.hosts[name]
        merged = {**mine.group_variables(host), **mine.host_variables(host)}
        ignored = MAGIC | {key for key in theirs if key.startswith("ansible_")}
        assert {k: v for k, v in merged.items() if k not in ignored} == {
            k: v for k, v in theirs.items() if k not in ignored
        }


@pytest.mark.parametrize(
    "template", cases(__file__, "simple_templates_render_as_ansible_renders_them")
)
def test_simple_templates_render_as_ansible_renders_them(template: str):
    values = {"rack": 2, "unit": 7, "name": "n07", "flag": True}
    theirs = Engine().render(trust_as_template(template), values)
    try:
        mine = parse(template).render(values)
    except LookupError:
        return  # left to Ansible, which is always right
    assert (mine, type(mine)) == (theirs, type(theirs))


def test_most_common_templates_are_simple():
    values = {"rack": 2, "unit": 7}
    assert parse("10.{{ rack }}.0.{{ unit + 1 }}/24").render(values) == "10.2.0.8/24"


def test_hosts_with_the_same_values_share_what_a_template_gives(tmp_path: Path):
    text = 'who: ana\nlimits_memlock_users: "{{ [who] }}"\n'
    hosts = "nodes: {hosts: {n1: {unit: 1}, n2: {unit: 2}, n3: {unit: 3, who: bob}, n4: {unit: 4}}}"
    files = {**sites.GOOD, "hosts.yml": hosts, "group_vars/nodes.yml": text}
    found = [n.get("limits_memlock_users") for n in load_site(sites.write(tmp_path, files)).nodes]
    assert found == [["ana"], ["ana"], ["bob"], ["ana"]]
    assert found[0] is found[1]


def test_templates_that_look_elsewhere_are_left_to_ansible(tmp_path: Path):
    template = "{{ lookup('vars', 'wanted') + extra }}"
    text = f'fabric_mtu_bytes: "{template}"\nwanted: 4000\nextra: 200\n'
    site = sites.write(tmp_path, {**sites.GOOD, "group_vars/nodes.yml": text})
    assert load_site(site).nodes[0].get("fabric_mtu_bytes") == 4200


def test_places_of_values(tmp_path: Path):
    files = {**sites.GOOD, "host_vars/n1.yml": "---\nofed_hold: false\nnccl_ib_sl: 3\n"}
    site = sites.write(tmp_path, files)
    one, two = load_site(site).nodes
    own, shared = str(site / "host_vars/n1.yml"), str(site / "group_vars/all.yml")
    assert one.locate("nccl_ib_sl") == Position(own, 3, 13)
    assert one.locate("ofed_hold") == Position(own, 2, 1)
    assert one.locate("fabric_rails", 1, "address") == Position(shared, 6, 29)
    assert two.locate("nccl_ib_sl") == Position(str(site / "hosts.yml"), 5, 5)


def test_ini_inventories_and_scripts_are_read(tmp_path: Path):
    answer = {"nodes": {"hosts": ["n3"]}, "_meta": {"hostvars": {"n3": {"unit": 3}}}}
    script = f"#!/bin/sh\necho '{json.dumps(answer)}'\n"
    files = {
        "group_vars/all.yml": sites.GOOD["group_vars/all.yml"],
        "hosts.ini": "[nodes]\nn[1:2]\n\n[nodes:vars]\nfabric_mtu_bytes=1500\n",
        "host_vars/n1.yml": "unit: 1\n",
        "host_vars/n2.yml": "unit: 2\n",
        "dynamic": script,
    }
    site = sites.write(tmp_path, files)
    (site / "dynamic").chmod(0o755)
    fleet = load_site(site)
    assert fleet.problems == ()
    assert sorted(node.name for node in fleet.nodes) == ["n1", "n2", "n3"]
    assert fleet.nodes[0].get("fabric_mtu_bytes") == 1500


def test_reference_site_is_found_from_any_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(load_site(data_dir("inventory") / "ib", "ib0*,!ib01").nodes) == 8


def test_template_with_a_filter_of_ansibles_sees_its_variables(tmp_path):
    text = (
        "---\nbase: {vm.swappiness: 1}\nlimits_sysctl: \"{{ base | combine({'vm.x': unit}) }}\"\n"
    )
    fleet = load_site(sites.write(tmp_path, {**sites.GOOD, "group_vars/nodes.yml": text}))
    assert fleet.problems == ()
    assert fleet.nodes[1].get("limits_sysctl") == {"vm.swappiness": 1, "vm.x": 2}


LOGIN = {
    **sites.GOOD,
    "hosts.yml": """\
all:
  children:
    nodes:
      hosts:
        n1: {unit: 1}
        n2: {unit: 2}
    login:
      vars: {fabric_node: false, fabric_kind: none}
      hosts:
        login1:
""",
}


def test_host_that_is_no_node_is_left_out_with_what_it_lacks(tmp_path: Path):
    fleet = load_site(sites.write(tmp_path, LOGIN))
    assert [node.name for node in fleet.nodes] == ["n1", "n2"]
    assert fleet.problems == ()


def test_host_that_is_no_node_must_say_so(tmp_path: Path):
    files = {**LOGIN, "hosts.yml": LOGIN["hosts.yml"].replace("fabric_node: false, ", "")}
    assert {problem.hosts for problem in load_site(sites.write(tmp_path, files)).problems} == {
        ("login1",)
    }


def test_limit_to_hosts_that_are_no_nodes_is_refused(tmp_path: Path):
    with pytest.raises(SiteError, match="1 host selected, and none is a node"):
        load_site(sites.write(tmp_path, LOGIN), "login")
