"""pytest's options, fixtures and markers for judging a fleet's nodes by their site.

    pytest validate/ --hosts=all --inventory=inventory/prod

A test that asks for `rail` runs for each rail of each node, one that asks for `node` or `host` for
each node, any other one once; `fleet` and `hosts` are all selected nodes.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from rdmaprov.errors import RdmaprovError
from rdmaprov.inventory import Fleet, Node, Rail
from rdmaprov.probe.session import Limits
from rdmaprov.validate import items, outcome
from rdmaprov.validate.hosts import Hosts
from rdmaprov.validate.items import node_by_node
from rdmaprov.validate.selection import (
    ALL,
    Selection,
    Target,
    by_specification,
    is_specification,
    loaded,
    probed,
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
    limits = Limits()
    group.addoption(
        "--command-timeout", metavar="S", type=float, default=limits.command_s,
        help="seconds that a command on a node may take (default: %(default)g)",
    )  # fmt: skip
    group.addoption(
        "--node-timeout", metavar="S", type=float, default=limits.node_s,
        help="seconds that all of a node's commands may take (default: %(default)g)",
    )  # fmt: skip
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
    if is_specification(hosts):
        options = {name: config.getoption(name) for name in _TESTINFRA_OPTIONS}
        inventory = config.getoption("ansible_inventory") or str(Path(site).resolve())
        options["ansible_inventory"] = inventory
        return by_specification(fleet, hosts, options, this_machine)
    limits = Limits(config.getoption("command_timeout"), config.getoption("node_timeout"))
    # A worker of xdist's judges some nodes only, and need not connect to the others.
    return probed(fleet, limits, together=not hasattr(config, "workerinput"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the connections."""
    selection = session.config.stash.get(_SELECTION, None)
    if selection is not None and selection.probe is not None:
        selection.probe.close()


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[items.Check] | None:
    """Make checks of the tests that ask for nodes and hosts alone."""
    selection = collector.config.stash.get(_SELECTION, None)
    if selection is None or not inspect.isfunction(obj) or not isinstance(collector, pytest.Module):
        return None
    return (
        items.checks(collector, name, obj, selection)
        if collector.istestfunction(obj, name)
        else None
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a function of pytest's own run for each rail or each node that it is about."""
    selection = metafunc.config.stash.get(_SELECTION, None)
    if "_target" not in metafunc.fixturenames or selection is None:
        return
    found = items.targets(frozenset(metafunc.fixturenames), selection)
    metafunc.parametrize("_target", found, ids=[target.id for target in found], indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by node: what the first one is asked is then fetched from all others at once."""
    items[:] = list(node_by_node(items))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a check; pytest runs everything else."""
    selection = item.config.stash.get(_SELECTION, None)
    if selection is not None and selection.probe is not None:
        selection.probe.live = item.get_closest_marker("path") is not None
    if not isinstance(item, items.Check):
        return None
    items.run(item, nextitem)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have what is no assertion be an error in functions of pytest's own too."""
    report = yield
    if "_target" in getattr(item, "fixturenames", ()) or "_selection" in getattr(
        item, "fixturenames", ()
    ):
        if report.failed and call.excinfo is not None and outcome.wants_one_line(item.config):
            report.longrepr = outcome.shown(call.excinfo)
        outcome.classify(report, call.excinfo)
    return report


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
