"""Which nodes are judged, and over what."""

import os
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import testinfra
from testinfra.host import Host

from rdmaprov import contract
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Fleet, Node, Rail, SiteError, load_site
from rdmaprov.inventory.errors import no_nodes
from rdmaprov.probe.fleet import open_probe
from rdmaprov.probe.recorded import AnyProbe
from rdmaprov.probe.session import Limits
from rdmaprov.runs.masks import Mask
from rdmaprov.validate.hosts import Hosts, ProbedHosts

ALL = "all"


@dataclass(frozen=True)
class CheckTarget:
    """What one test is about: a node, or one of its rails."""

    node: Node
    rail: Rail | None = None

    @cached_property
    def id(self) -> str:
        """Return what stands in the brackets of the test's name, such as `gpu07-rail3`."""
        return self.node.name if self.rail is None else f"{self.node.name}-rail{self.rail.index}"

    @property
    def properties(self) -> list[tuple[str, object]]:
        """Return what reports of a test about it have in their `user_properties`."""
        rail = [] if self.rail is None else [("rail", self.rail.index)]
        return [("node", self.node.name), *rail]


@dataclass(frozen=True)
class Selection:
    """The nodes to judge with their hosts."""

    fleet: Fleet  # the site; its nodes are the selected ones
    hosts: Hosts
    probe: AnyProbe | None = None  # the connections; None if testinfra has its own

    @cached_property
    def nodes(self) -> tuple[CheckTarget, ...]:
        """Return each node as a target."""
        return tuple(CheckTarget(node) for node in self.fleet.nodes)

    @cached_property
    def rails(self) -> tuple[CheckTarget, ...]:
        """Return each rail of each node as a target."""
        return tuple(CheckTarget(node, rail) for node in self.fleet.nodes for rail in node.rails)


def is_specification(hosts: str) -> bool:
    """Return whether --hosts names testinfra hosts, such as ssh://gpu07, and is no pattern."""
    return "://" in hosts


def load(
    site: Path, pattern: str, vault_password_file: Path | None = None
) -> tuple[Fleet, list[contract.Waived]]:
    """Return the fleet of a good site, limited to the pattern's nodes, and what it waives.

    Raises:
        SiteError: the site has a problem, or no node is left.
    """
    limit = None if is_specification(pattern) or pattern == ALL else pattern
    fleet = load_site(site, limit, vault_password_file)
    problems, waived = contract.judge(fleet)
    if problems:
        first = problems[0].text(Path.cwd())
        many = f"{len(problems)} problems, first " if len(problems) > 1 else ""
        hint = shlex.join(["rdmaprov", "check", str(site)])
        raise SiteError(f"{site}: {many}{Mask(fleet.secrets()).text(first)}", f"Run: {hint}")
    if not fleet.nodes:
        raise no_nodes(site)
    return fleet, waived


def select(fleet: Fleet, limits: Limits, become_password: str = "") -> Selection:
    """Return the nodes of a fleet over rdmaprov's own connections; see `open_probe`."""
    probe = open_probe(fleet, limits, together=True, become_password=become_password)
    return asked_of(fleet, probe, limits)


def asked_of(fleet: Fleet, probe: AnyProbe, limits: Limits) -> Selection:
    """Return the nodes of a fleet that a probe asks."""
    names = tuple(node.name for node in fleet.nodes)
    return Selection(fleet, ProbedHosts(names, probe, limits.command_s), probe)


def select_hosts(
    fleet: Fleet, hosts: str, options: Mapping[str, Any], environment: Callable[[], str]
) -> Selection:
    """Return the nodes that testinfra's host specifications name.

    A specification is about the node that its query names (`local://?node=gpu07`); else about the
    node with its host's name, or with that name as ansible_host; else, for local://, about the node
    with this machine's name; else about the site's one node.

    Args:
        options: testinfra's, such as ssh_config.

    Raises:
        UsageError: a specification belongs to no node, or two to the same one.
    """
    _find_ansible()
    chosen: dict[str, Host] = {}
    for specification in hosts.split(","):
        for host in testinfra.get_hosts([specification], **options):
            name = _node_of(fleet, specification, host, environment)
            if name in chosen:
                raise UsageError(f"--hosts {hosts}: {name} is named twice", "Name each node once.")
            chosen[name] = host
    nodes = tuple(node for node in fleet.nodes if node.name in chosen)
    names = tuple(node.name for node in nodes)
    limited = Fleet(fleet.site, nodes, fleet.problems, fleet.secrets, fleet.variables)
    return Selection(limited, Hosts(names, chosen.__getitem__))


def _find_ansible() -> None:
    """Have ansible:// start the Ansible that is beside this Python, whatever PATH says."""
    beside, path = str(Path(sys.executable).parent), os.environ.get("PATH", "")
    if beside not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([beside, path])


def this_machine() -> str:
    """Return this machine's name, without its domain."""
    return socket.gethostname().partition(".")[0]


def _node_of(fleet: Fleet, specification: str, host: Host, environment: Callable[[], str]) -> str:
    names = [node.name for node in fleet.nodes]
    query = parse_qs(urlparse(specification).query)
    if wanted := query.get("node", [""])[0]:
        if wanted in names:
            return wanted
        raise UsageError(
            f"--hosts {specification}: the site has no node {wanted}",
            f"Name one of its nodes: {', '.join(names[:3])}",
        )
    backend = host.backend
    local = backend.NAME == "local"
    seen = environment() if local else str(backend.get_hostname())
    short = [name for name in names if local and name.partition(".")[0] == seen]
    addressed = [name for name in names if seen == _address(fleet, name)]
    for found in ([seen] if seen in names else [], short, addressed, names):
        if len(found) == 1:
            return found[0]
    raise UsageError(
        f"--hosts {specification}: no node of the site is called {seen}",
        f"Name the node: --hosts '{specification.partition('?')[0]}?node={names[0]}'",
    )


def _address(fleet: Fleet, name: str) -> str:
    variables = fleet.variables(name)
    return str(variables.value("ansible_host")) if "ansible_host" in variables else ""
