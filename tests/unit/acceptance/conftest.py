"""A node that is this machine."""

import pytest
from tests.unit.helpers.local_node import local_probe


@pytest.fixture
def here():
    with local_probe("n1") as probe:
        yield probe
