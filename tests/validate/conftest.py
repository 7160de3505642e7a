"""The made-up fleet that the suite is tried on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.validate.healthy import healthy
from tests.validate.runner import modules

from rdmaprov.facts import wire
from rdmaprov.inventory import load_site

SITE = Path(__file__).parent / "site"


@pytest.fixture(autouse=True)
def _short_exchanges(monkeypatch):
    """Give up on an exchange that carries nothing after 2 s; on nodes it is half a minute."""
    monkeypatch.setattr(wire, "SERVER_S", 2)


@pytest.fixture(scope="session")
def suite():
    return modules()


@pytest.fixture(scope="session")
def fleet():
    loaded = load_site(SITE, None)
    assert [problem.text() for problem in loaded.problems] == []
    return loaded


@pytest.fixture(scope="session")
def nodes(tmp_path_factory):
    base = tmp_path_factory.mktemp("nodes")
    return {f"gpu{number}": healthy(base / f"gpu{number}", number) for number in (1, 2)}
