"""The lab that the tests of this directory run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.lab.fleet import Fleet
from tests.lab.handle import LabHandle
from tests.lab.play import Play
from tests.lab.rail import Rail


@pytest.fixture(scope="session")
def lab(tmp_path_factory, at_large):
    """Provide a lab: the one of RDMAPROV_LAB_DIR, brought up if it is not, or one of its own."""
    given = os.environ.get("RDMAPROV_LAB_DIR")
    directory = Path(given) if given else tmp_path_factory.mktemp("lab") / "lab"
    if not given:
        at_large(directory)
    handle = LabHandle(directory, tmp_path_factory.mktemp("site"))
    try:
        handle.must("up", *([] if given else ["--site", str(handle.site)]))
        yield handle
    finally:
        if not given:
            handle.must("down")


def pytest_collection_modifyitems(items):
    """Have the modules that need factory nodes come first: the others reset nothing."""
    items.sort(key=lambda item: not _needs_factory(item.module))


def _needs_factory(module):
    return getattr(module, "NEEDS_FACTORY", True)


@pytest.fixture(scope="module", autouse=True)
def factory(request):
    """Begin a module on factory nodes, unless it needs none; CHANGES it leaves otherwise."""
    items = [item for item in request.session.items if item.module is request.module]
    if any("lab" in item.fixturenames for item in items):
        changes = getattr(request.module, "CHANGES", ())
        request.getfixturevalue("lab").begin(changes, factory=_needs_factory(request.module))


@pytest.fixture(scope="module")
def provisioned(lab, tmp_path_factory):
    """Provide the lab's nodes as its site says, by apply where they are not so already."""
    fleet = Fleet(lab, tmp_path_factory.mktemp("provisioned"))
    fleet.apply("--drifted")
    return fleet


@pytest.fixture(scope="module")
def play(lab, request, tmp_path_factory):
    """Provide the runs of the role that a module test_role_ROLE is about, on its NODE."""
    role = request.path.stem.removeprefix("test_role_")
    return Play(lab, tmp_path_factory.mktemp("play"), role, request.module.NODE)


@pytest.fixture(scope="module")
def card(lab):
    rail = Rail(lab, "node1")
    settings = rail.settings()
    yield rail
    rail.power_cycle()
    rail.run(settings)


@pytest.fixture
def rail(card):
    card.power_cycle()
    return card


@pytest.fixture
def peer(lab, rail):
    """Provide the same rail of another node, whose `address` is reachable from `rail`."""
    other = Rail(lab, "node2")
    address = other.run(
        "ip link set $D up; for i in 1 2 3 4 5; do "
        "ip -6 -o addr show dev $D scope link -tentative | grep -q . && break; sleep 1; done; "
        "ip -6 -o addr show dev $D scope link"
    ).split()[3]
    other.address = f"{address.partition('/')[0]}%{rail.netdev}"
    rail.run(f"ping -q -c 2 -i 0.3 {other.address}")
    return other


@pytest.fixture
def ofed(rail):
    rail.run("modprobe standin_ofed")
    yield rail
    rail.run("modprobe -r nvidia_peermem; modprobe -r standin_ofed")
