"""One acceptance of made-up ranks is enough; tests alter copies of it."""

import contextlib
import shutil

import pytest
from tests.cli.certified import SIZES, CertifiedFleet


@pytest.fixture(scope="package")
def fleet(tmp_path_factory):
    place = tmp_path_factory.mktemp("certified")
    made = CertifiedFleet(place)
    with contextlib.chdir(place):
        made.accept(*SIZES, "--sign", "operator")
    return made


@pytest.fixture
def run(fleet, tmp_path, monkeypatch):
    monkeypatch.chdir(fleet.directory)
    copied = tmp_path / "run"
    shutil.copytree(fleet.newest(), copied)
    return copied
