"""The lab that the tests of this directory run on, and the state that each begins from.

A module says its STATE ("factory" if it says nothing). Each of its tests begins from that saved
state; with SHARED, the module does, and its tests leave the nodes as they found them. Where they
touch only some nodes (TOUCHES), only those are restored.
"""

import os
from pathlib import Path

import pytest
from tests.lab import kept
from tests.lab.fleet import FOUR, Fleet
from tests.lab.handle import FACTORY, PROVISIONED, LabHandle
from tests.lab.play import Play
from tests.lab.rail import Rail


def pytest_collection_modifyitems(items):
    """Begin with what takes longest: else one worker waits for the other at the end."""
    items.sort(key=lambda item: item.path.stem not in ("test_pull", "test_validate", "test_watch"))


@pytest.fixture(scope="session")
def lab(tmp_path_factory, at_large):
    """Provide a lab: the one of RDMAPROV_LAB_DIR, brought up if it is not, or one that is kept."""
    given = os.environ.get("RDMAPROV_LAB_DIR")
    if not given:
        with kept.kept_lab(kept.directory(), kept.key(kept.ROOT), at_large) as handle:
            yield handle
        return
    handle = LabHandle(Path(given), tmp_path_factory.mktemp("site"))
    handle.must("up")
    yield handle


@pytest.fixture(scope="module")
def begin(request, tmp_path_factory):
    state = getattr(request.module, "STATE", FACTORY)

    def restore(lab):
        make = {PROVISIONED: lambda: Fleet(lab, tmp_path_factory.mktemp("apply")).apply()}
        lab.begin_from(state, make.get(state), getattr(request.module, "TOUCHES", None))

    return restore


def _is_shared(request):
    return getattr(request.module, "SHARED", False)


@pytest.fixture(scope="module", autouse=True)
def _begin_module(request, begin):
    items = [item for item in request.session.items if item.module is request.module]
    if _is_shared(request) and any("lab" in item.fixturenames for item in items):
        begin(request.getfixturevalue("lab"))


@pytest.fixture(autouse=True)
def _begin_test(request, begin):
    if not _is_shared(request) and "lab" in request.fixturenames:
        begin(request.getfixturevalue("lab"))


@pytest.fixture(scope="module")
def fleet(lab, tmp_path_factory):
    """Provide the lab's nodes as a site of the user's own."""
    return Fleet(lab, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="session")
def fleet_of_four(tmp_path_factory, at_large):
    """Provide four provisioned nodes: the lab of RDMAPROV_LAB_OF_FOUR_DIR, or one of their own."""
    directory = tmp_path_factory.mktemp("four")
    given = os.environ.get("RDMAPROV_LAB_OF_FOUR_DIR")
    if not given:
        at_large(directory / "lab")
    lab = LabHandle(Path(given) if given else directory / "lab", directory / "lab-site")
    try:
        site = [] if given else ["--site", str(lab.site)]
        lab.must("up", "--nodes", str(len(FOUR)), *site)
        made = Fleet(lab, directory)
        made.apply()
        yield made
    finally:
        if not given:
            lab.must("down")


@pytest.fixture(scope="module")
def play(lab, request, tmp_path_factory):
    role = request.path.stem.removeprefix("test_role_")
    return Play(lab, tmp_path_factory.mktemp("play"), role, request.module.NODE)


@pytest.fixture(scope="module")
def card(lab):
    return Rail(lab, "node1")


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
