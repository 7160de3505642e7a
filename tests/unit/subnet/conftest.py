"""The texts of a healthy subnet, for tests to change."""

import pytest
from tests.unit.helpers.subnet_texts import Texts


@pytest.fixture
def texts(tmp_path):
    return Texts(tmp_path)
