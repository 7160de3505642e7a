"""How ranks of a job find each other: device, port, first node, and what all of them run."""

from __future__ import annotations

import pytest
from tests.unit.helpers.gate_sites import made_site

from rdmaprov.acceptance.ranks import jobs


@pytest.fixture
def site(tmp_path):
    return made_site(tmp_path)


def test_nccl_takes_the_control_device_unless_the_node_says_otherwise(tmp_path):
    site = made_site(tmp_path, 4)
    site.facts["n2"]["socket_ifname"] = "bond0"
    made = jobs.fleet_job(site, (1 << 30,), False)
    assert made.environment["n1"]["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert "NCCL_SOCKET_IFNAME" not in made.environment["n2"]


def test_nccl_takes_the_device_that_the_site_states(tmp_path):
    site = made_site(tmp_path, 4, extra="nccl_socket_ifname: =bond0\n")
    assert jobs.fleet_job(site, (1 << 30,), False).environment["n1"] == {}


def test_the_site_chooses_the_port(tmp_path):
    site = made_site(tmp_path, 4, extra="torch_runtime_acceptance_port: 29400\n")
    assert jobs.fleet_job(site, (8,), False).port == 29400
    assert jobs.session_job(site, 3).port == 29400
    free = made_site(tmp_path / "free", 4)
    assert jobs.session_job(free, 0).port != jobs.session_job(free, 1).port


def test_ranks_meet_at_the_first_node_that_is_left(site):
    job = jobs.session_job(site.without({"n1"}), 0)
    assert (job.nodes[0], job.address) == ("n2", "192.0.2.2")
    assert jobs.session_job(site, 0).address == "192.0.2.1"


def test_all_collectives_run_on_the_fleet_at_the_largest_sizes_only(site):
    tasks = jobs.fleet_job(site, tuple(1 << n for n in range(3, 30)), False).tasks
    others = {task.collective: task.sizes for task in tasks if task.stage == "fleet"}
    assert set(others) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    assert others["all_to_all"] == (1 << 27, 1 << 28, 1 << 29)
