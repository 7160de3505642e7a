"""pytest's options, fixtures and markers for judging a fleet's nodes by their site.

    pytest validate/ --hosts=all --inventory=inventory/prod

A test that asks for `rail` runs for each rail of each node, one that asks for `node` or `host` for
each node, any other one once; `fleet` and `hosts` are all selected nodes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from rdmaprov.errors import RdmaprovError
from rdmaprov.inventory import Fleet, Node, Rail
from rdmaprov.validate.hosts import Hosts
from rdmaprov.validate.selection import (
    ALL,
    Selection,
    Target,
    by_specification,
    is_specification,
    loaded,
    this_machine,
)

MARKERS = {
    "state": "settings: configured on disk, running now, after a reboot",
    "links": "ports, their rate, width and errors",
    "path": "between nodes, on the wire; nothing that such a test asks is fetched ahead",
    "acceptance": "the fabric's performance",
}
_SELECTION = pytest.StashKey[Selection]()
_TESTINFRA_OPTIONS = (
    "connection", "ssh_config", "ssh_identity_file", "sudo", "sudo_user", "force_ansible",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what testinfra's own options lack; --hosts is testinfra's."""
    group = parser.getgroup("rdmaprov")
    group.addoption(
        "--inventory",
        metavar="SITE",
        default=os.environ.get("RDMAPROV_INVENTORY", ""),
        help="the site that says what nodes must be (default: RDMAPROV_INVENTORY)",
    )
    group.addoption("--vault-password-file", metavar="FILE", help="opens the site's vaulted values")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the site before anything else: a wrong one ends the run with one line."""
    config = session.config
    if config.getoption("showfixtures") or config.getoption("show_fixtures_per_test"):
        return
    try:
        config.stash[_SELECTION] = _selected(config)
    except RdmaprovError as error:
        raise pytest.UsageError(f"{error.message}. {error.hint}") from error


def _selected(config: pytest.Config) -> Selection:
    site = config.getoption("inventory")
    if not site:
        raise pytest.UsageError("no site is named. Give --inventory SITE or RDMAPROV_INVENTORY")
    hosts = config.getoption("hosts") or ALL
    vault = config.getoption("vault_password_file")
    fleet = loaded(Path(site), hosts, Path(vault) if vault else None)
    options = {name: config.getoption(name) for name in _TESTINFRA_OPTIONS}
    inventory = config.getoption("ansible_inventory") or str(Path(site).resolve())
    options["ansible_inventory"] = inventory
    if is_specification(hosts):
        return by_specification(fleet, hosts, options, this_machine)
    names = ",".join(f"ansible://{node.name}" for node in fleet.nodes)
    return by_specification(fleet, names, options, this_machine)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a test run for each rail or each node that it is about."""
    if "_target" not in metafunc.fixturenames:
        return
    selection = metafunc.config.stash.get(_SELECTION, None)
    if selection is None:
        return
    targets = selection.rails if "rail" in metafunc.fixturenames else selection.nodes
    metafunc.parametrize("_target", targets, ids=[target.id for target in targets], indirect=True)


@pytest.fixture
def _target(request: pytest.FixtureRequest) -> Target:
    target: Target = request.param
    return target


@pytest.fixture(scope="session")
def _selection(request: pytest.FixtureRequest) -> Selection:
    return request.config.stash[_SELECTION]


@pytest.fixture
def node(_target: Target) -> Node:
    """Return what the site says of the node."""
    return _target.node


@pytest.fixture
def rail(_target: Target) -> Rail:
    """Return what the site says of the rail."""
    if _target.rail is None:
        raise LookupError("the test does not ask for `rail` itself, so it runs once for each node")
    return _target.rail


@pytest.fixture
def host(_target: Target, _selection: Selection) -> Host:
    """Return testinfra's host of the node."""
    return _selection.hosts[_target.node.name]


@pytest.fixture(scope="session")
def fleet(_selection: Selection) -> Fleet:
    """Return the site with the selected nodes."""
    return _selection.fleet


@pytest.fixture(scope="session")
def hosts(_selection: Selection) -> Hosts:
    """Return testinfra's hosts by the nodes' names."""
    return _selection.hosts


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the line that says what is judged."""
    selection: Any = config.stash.get(_SELECTION, None)
    if selection is None:
        return []
    return [f"site: {selection.fleet.site}, {len(selection.fleet.nodes)} nodes"]
