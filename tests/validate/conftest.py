"""The made-up fleet that the suite is tried on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.validate.healthy import healthy
from tests.validate.infiniband_node import infiniband
from tests.validate.runner import modules

from rdmaprov.facts import wire
from rdmaprov.inventory import load_site

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _short_exchanges(monkeypatch):
    """Give up on an exchange that carries nothing after 2 s; on nodes it is half a minute."""
    monkeypatch.setattr(wire, "SERVER_S", 2)


@pytest.fixture(scope="session")
def suite():
    return modules()


def load(name):
    loaded = load_site(HERE / name, None)
    assert [problem.text() for problem in loaded.problems] == []
    return loaded


@pytest.fixture(scope="session")
def fleet():
    return load("site")


@pytest.fixture(scope="session")
def nodes(tmp_path_factory):
    base = tmp_path_factory.mktemp("nodes")
    return {f"gpu{number}": healthy(base / f"gpu{number}", number) for number in (1, 2)}


@pytest.fixture(scope="session")
def infiniband_fleet():
    return load("infiniband_site")


@pytest.fixture(scope="session")
def infiniband_nodes(tmp_path_factory):
    base = tmp_path_factory.mktemp("infiniband")
    return {f"gpu{number}": infiniband(base / f"gpu{number}", number) for number in (1, 2)}
