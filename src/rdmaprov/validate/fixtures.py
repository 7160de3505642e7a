"""What a test may ask for.

A plugin of its own: of fixtures with the same name the one that is registered last counts, and
testinfra has a `host` too.
"""

import pytest
from testinfra.host import Host

from rdmaprov.inventory import Fleet, Node, Rail
from rdmaprov.validate.hosts import Hosts
from rdmaprov.validate.selection import CheckTarget, Selection

SELECTION = pytest.StashKey[Selection]()


@pytest.fixture
def _target(request: pytest.FixtureRequest) -> CheckTarget:
    target: CheckTarget = request.param
    return target


@pytest.fixture(scope="session")
def _selection(request: pytest.FixtureRequest) -> Selection:
    return request.config.stash[SELECTION]


@pytest.fixture
def node(_target: CheckTarget) -> Node:
    """Return what the site says of the node."""
    return _target.node


@pytest.fixture
def rail(_target: CheckTarget) -> Rail:
    """Return what the site says of the rail."""
    if _target.rail is None:
        raise LookupError("the test does not ask for `rail` itself, so it runs once for each node")
    return _target.rail


@pytest.fixture
def host(_target: CheckTarget, _selection: Selection) -> Host:
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
