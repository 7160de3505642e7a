"""A Slurm for a module's tests, of its NAMES, and a fresh site for each, of its HOSTS."""

import pytest
from tests.cli.slurm_place import HOSTS, NAMES, fresh_place
from tests.unit.helpers.slurm_cluster import running_cluster


@pytest.fixture(scope="module")
def cluster(request):
    with running_cluster(getattr(request.module, "NAMES", NAMES)) as made:
        yield made


@pytest.fixture
def place(cluster, tmp_path, request):
    with fresh_place(cluster, tmp_path, getattr(request.module, "HOSTS", HOSTS)) as made:
        yield made
