"""A fleet of namespaces for each test, with the lab's disk of torch."""

import os

import pytest
from tests.namespaces.nodes import NamespaceFleet, lab_torch_disk


@pytest.fixture(scope="session")
def torch_disk():
    if os.geteuid() != 0:
        pytest.skip("needs root: nodes of namespaces mount a disk")
    return lab_torch_disk()


@pytest.fixture
def four_nodes(tmp_path, torch_disk):
    fleet = NamespaceFleet(tmp_path, torch_disk, 4)
    try:
        yield fleet
    finally:
        fleet.down()
