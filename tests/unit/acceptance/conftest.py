"""A node that is this machine, and a site of four."""

import pytest
from tests.unit.helpers.local_node import local_probe
from tests.unit.helpers.preflight_facts import four_nodes


@pytest.fixture
def here():
    with local_probe("n1") as probe:
        yield probe


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    return four_nodes(tmp_path_factory.mktemp("site"))
