"""Load a site as Ansible does, into a fleet of typed nodes."""

from __future__ import annotations

import difflib
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import ansible_warnings, files, host_values, names, schema, secrets
from rdmaprov.inventory.ansible_api import (
    AnsibleError,
    Host,
    Inventory,
    error_text,
    mute,
)
from rdmaprov.inventory.conflicts import Conflict, conflicts
from rdmaprov.inventory.host_positions import HostPositions
from rdmaprov.inventory.locator import Locator
from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.inventory.resolve import Renderer, ResolveError, Variables
from rdmaprov.problem import Position, Problem, display_path, merge_problems


class SiteError(RdmaprovError):
    """There is no site to load."""

    exit_code = ExitCode.INVALID_SITE


def load_site(
    site: Path,
    limit: str | None = None,
    vault_password_file: Path | None = None,
    count: Callable[[int, int], None] = lambda _done, _total: None,
) -> Fleet:
    """Return the fleet of a site, with the problems of its files, names and types.

    Args:
        site: the inventory directory.
        limit: an Ansible pattern; nodes outside it are not loaded.
        vault_password_file: decrypts vaulted values, in addition to Ansible's own settings.
        count: called with the number of hosts read and the number of all hosts.

    Raises:
        SiteError: the directory does not exist, or no node matches the limit.

    """
    site = _directory(site)
    with mute() as warnings, _no_collection():
        try:
            return _Loader(site, warnings, vault_password_file).fleet(limit, count)
        except AnsibleError as error:
            raise SiteError(
                f"{site}: Ansible cannot read the site: {error_text(error)}",
                "Correct the file that the message names, or run: ansible-inventory -i SITE --list",
            ) from error


@contextmanager
def _no_collection() -> Iterator[None]:
    """Stop the garbage collector: a load makes millions of objects that all stay.

    It would visit all of them again and again, so that each further host takes longer.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _directory(site: Path) -> Path:
    if not site.exists():
        raise SiteError(f"{site}: no such directory", _suggestion(site))
    if not site.is_dir():
        raise SiteError(
            f"{site}: not a directory", f"Name the directory of the site: {site.parent}"
        )
    return site.resolve()


def _suggestion(site: Path) -> str:
    """Return what to do about a missing site, such as a similar name beside it."""
    beside = [path.name for path in site.parent.glob("*/") if path.is_dir()]
    if near := difflib.get_close_matches(site.name, beside, n=1):
        return f"Did you mean {site.parent / near[0]}?"
    here = f" (relative to {Path.cwd()})" if not site.is_absolute() else ""
    return f"Name the directory of a site{here}, or create one: rdmaprov init {site}"


class _Loader:
    def __init__(self, site: Path, warnings: list[tuple[str, object]], vault: Path | None) -> None:
        self._site = site
        self._warnings = warnings
        self._schema = schema.load_shipped()
        self._inventory = Inventory(site, vault)
        self._positions = HostPositions(site, self._inventory)
        self._renderer = Renderer()
        self._conflict_cache: dict[tuple[str, ...], tuple[Conflict, ...]] = {}
        self._converter = host_values.Converter(self._schema.variables, self._schema.defaults)

    def fleet(self, limit: str | None, count: Callable[[int, int], None]) -> Fleet:
        problems = list(files.problems(self._site, self._inventory))
        if problems:
            problems += ansible_warnings.duplicates(self._warnings)
            return Fleet(self._site, (), tuple(merge_problems(problems)))
        self._inventory.parse()
        problems += ansible_warnings.duplicates(self._warnings)
        problems += ansible_warnings.problems(self._positions, self._warnings)
        problems += self._unsafe_host_names()
        problems += names.orphans(self._site, self._inventory.hosts, self._inventory.groups)
        if not self._inventory.hosts and not problems:
            problems.append(_no_hosts(self._site))
        nodes: list[Node] = []
        selected = self._select(limit)
        for number, host in enumerate(selected):
            count(number, len(selected))
            node, found = self._node(host)
            nodes.append(node)
            problems += found
        return Fleet(
            self._site,
            tuple(nodes),
            tuple(merge_problems(problems)),
            self._secrets,
            self._node_variables,
            self._role_variables,
        )

    def _node_variables(self, name: str) -> Variables:
        return self._variables(self._inventory.hosts[name])

    def _role_variables(self, name: str, defaults: Mapping[str, Any]) -> Variables:
        host = self._inventory.hosts[name]
        layers = self._inventory.group_variables(host), self._inventory.host_variables(host)
        raw = {**defaults, **layers[0], **layers[1]}
        return Variables(raw, self._magic(host), self._renderer, certain=True)

    def _secrets(self) -> frozenset[str]:
        with mute():
            return secrets.find(self._inventory, self._variables)

    def _variables(self, host: Host) -> Variables:
        layers = self._inventory.group_variables(host), self._inventory.host_variables(host)
        raw = {**self._schema.defaults, **layers[0], **layers[1]}
        return Variables(raw, self._magic(host), self._renderer)

    def _select(self, limit: str | None) -> list[Host]:
        chosen = self._inventory.select(limit)
        if limit and not chosen and self._inventory.hosts:
            site = display_path(str(self._site), Path.cwd())
            raise SiteError(
                f"{site}: no host matches --limit {limit}",
                f"List the site's hosts and groups: ansible-inventory -i {site} --graph",
            )
        return [host for host in chosen if names.is_safe(str(host.name))]

    def _unsafe_host_names(self) -> Iterator[Problem]:
        for name in self._inventory.hosts:
            if not names.is_safe(str(name)):
                yield names.unsafe_name(
                    "host", str(name), self._positions.host(str(name)), str(name)
                )

    def _node(self, host: Host) -> tuple[Node, list[Problem]]:
        name = str(host.name)
        of_groups = self._inventory.group_variables(host)
        own = self._inventory.host_variables(host)
        locate = Locator(name, (own, of_groups), self._positions)
        variables = self._variables(host)
        values, problems = self._converter.values(name, variables, locate)
        rails, wrong = host_values.rails(name, values.get("fabric_rails", []), locate)
        problems += wrong
        problems += _connection_problems(name, variables, locate)
        groups = tuple(str(group.name) for group in self._inventory.groups_of(host))
        disputed = self._conflicts(groups, host)
        written = frozenset(str(key) for layer in (of_groups, own) for key in layer)
        return Node(name, groups, values, rails, written, disputed, locate), problems

    def _conflicts(self, groups: tuple[str, ...], host: Host) -> tuple[Conflict, ...]:
        """Return the conflicts of a set of groups, computed once for all hosts in it."""
        if groups not in self._conflict_cache:
            self._conflict_cache[groups] = conflicts(
                self._inventory, self._inventory.groups_of(host), self._schema.variables
            )
        own = self._inventory.host_variables(host) if self._conflict_cache[groups] else {}
        return tuple(one for one in self._conflict_cache[groups] if one[0] not in own)

    def _magic(self, host: Host) -> Mapping[str, Any]:
        groups = [str(group.name) for group in self._inventory.groups_of(host)]
        return {
            "inventory_hostname": str(host.name),
            "inventory_hostname_short": str(host.name).split(".", maxsplit=1)[0],
            "group_names": sorted(group for group in groups if group != "all"),
            "inventory_dir": str(self._site),
        }


def _connection_problems(host: str, variables: Variables, locate: Locator) -> Iterator[Problem]:
    for name in names.CONNECTION:
        if name not in variables:
            continue
        try:
            value = str(variables.value(name))
        except ResolveError as error:
            at = error.position or locate(name)
            yield Problem(at, name, error.message, error.remedy, error.rule, (host,))
            continue
        if not names.is_safe(value):
            yield names.unsafe_name(name, value, locate(name), host)


def _no_hosts(site: Path) -> Problem:
    lab = site.name == "lab"
    remedy = "run `rdmaprov lab up`, which writes them" if lab else "write hosts into hosts.yml"
    at = Position(str(site / "hosts.yml"))
    return Problem(at, "hosts", "the site has no hosts", remedy, "required")
