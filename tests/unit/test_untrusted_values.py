"""A site read without Ansible has the same nodes, and the same problems, as read with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.helpers import sites

from rdmaprov import contract
from rdmaprov.inventory import Fleet, load_site
from rdmaprov.inventory.host_positions import expand_range
from rdmaprov.inventory.untrusted import ranges
from rdmaprov.inventory.untrusted.load import load_untrusted
from rdmaprov.resources import data_dir

# What Ansible adds to each host.
ADDED = {"inventory_file", "inventory_dir"}
PRECEDENCE = {
    "a.yml": """\
all:
  vars: {fabric_numa_nodes: 1, nccl_socket_ifname: all, limits_memlock: all}
  hosts: {lone: }
  children:
    region:
      vars: {nccl_socket_ifname: region, fabric_link_gbps: 100}
      children:
        rack1: {hosts: {"n[01:03]": {unit: 1}}}
        rack2: {hosts: {"n[03:05]:2200": , "m[a:c]": {fabric_gpu_count: 4}}}
""",
    "b.yml": """\
late:
  hosts: {n01: {unit: 9}, n04: {ofed_version: 1.2.3}}
  vars: {ansible_group_priority: 7, fabric_link_gbps: 200, ofed_hold: true}
zz:
  hosts: {n01: , n04: }
  vars: {fabric_link_gbps: 400, ofed_hold: false}
""",
    "group_vars/all/1.yml": "fabric_kind: roce\nfabric_link_gbps: 25\nnccl_version: '1'\n",
    "group_vars/all/2/x.yaml": "nccl_version: '2'\nunit: 3\n",
    "group_vars/all/b.yml": "nccl_version: '3'\n",
    "group_vars/all.yml": "nccl_version: 'never read'\n",
    "group_vars/region.yml": "fabric_gpu_count: 8\nfabric_rails: &r [{netdev: e1, gpus: [0]}]\n",
    "group_vars/rack2.yaml": '{"fabric_rails": [{"netdev": "e{{ unit }}"}, {"netdev": "e9"}]}',
    "group_vars/zz": "limits_memlock: 0x10\n",
    "host_vars/n03.yml": "fabric_rails: [{netdev: ens1, <<: {address: 10.0.0.1/24}}]\n",
    "host_vars/lone.yml": "fabric_rails: [{netdev: ens7}]\nfabric_link_gbps: 10\n",
    "host_vars/n02/v.yml": "ofed_version: '{{ inventory_hostname[-2:] | int }}.{{ unit }}'\n",
}


def comparable(fleet: Fleet) -> dict[str, object]:
    return {
        node.name: (node.groups, node.values, node.rails, node.written - ADDED, node.conflicts)
        for node in fleet.nodes
    }


def lines(fleet: Fleet) -> list[str]:
    return sites.lines(fleet, contract.problems(fleet))


def with_hosts(name: str, tmp_path: Path) -> Path:
    site = tmp_path / name
    shutil.copytree(data_dir("inventory") / name, site)
    if name == "lab":
        (site / "hosts.yml").write_text("lab: {hosts: {'node[1:4]': {ansible_port: 20001}}}\n")
    return site


@pytest.mark.parametrize("name", ["prod", "ib", "lab"])
def test_reference_site_has_the_same_nodes(name: str, tmp_path: Path):
    site = with_hosts(name, tmp_path)
    plain, full = load_untrusted(site), load_site(site)
    assert comparable(plain) == comparable(full) != {}
    assert lines(plain) == lines(full)


def test_precedence_is_ansible_s(tmp_path: Path):
    site = sites.write(tmp_path / "site", PRECEDENCE)
    plain, full = load_untrusted(site), load_site(site)
    assert comparable(full).keys() == {"lone", *(f"n0{i}" for i in range(1, 6)), "ma", "mb", "mc"}
    assert comparable(plain) == comparable(full)
    assert sorted(lines(plain)) == sorted(lines(full))


PIECES = st.sampled_from(["n", "-", "[1:3]", "[01:12]", "[a:d]", "[0:9:4]", "[:2]", "[b:F:2]"])


@given(st.lists(PIECES, max_size=3))
@settings(derandomize=True)
def test_range_has_ansible_s_names(pieces: list[str]):
    text = "".join(pieces)
    try:
        pattern = ranges.parse(text)
    except ranges.WrongRange:
        return
    names = list(pattern.names())
    assert names == list(expand_range(text))
    assert len(names) == pattern.count
