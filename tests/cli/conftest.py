"""A fresh site for each test of a Slurm's nodes, of its module's HOSTS."""

import pytest
from tests.cli.slurm_place import HOSTS, fresh_place


@pytest.fixture
def place(cluster, tmp_path, request):
    with fresh_place(cluster, tmp_path, getattr(request.module, "HOSTS", HOSTS)) as made:
        yield made
