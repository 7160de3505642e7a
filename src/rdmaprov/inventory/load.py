"""Load a site as Ansible does, into a fleet of typed nodes."""

import difflib
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.inventory import names, schema, secrets, site_files
from rdmaprov.inventory.ansible_api import (
    AT_RUN_TIME,
    AnsibleError,
    AnsibleVaultError,
    EncryptedString,
    Engine,
    Host,
    Inventory,
    NoMatch,
    error_position,
    error_text,
    mute,
)
from rdmaprov.inventory.errors import SiteError, site_directory
from rdmaprov.inventory.expression import DYNAMIC, Template
from rdmaprov.inventory.host_positions import HostPositions
from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.inventory.nodes import NodeBuilder, no_collection, no_hosts, unsafe_host_names
from rdmaprov.inventory.resolve import ResolveError, Variables
from rdmaprov.inventory.tags import position_of
from rdmaprov.problem import Position, Problem, display_path, merge_problems, printable
from rdmaprov.surroundings import ansible_command
from rdmaprov.words import quantity, some

_MISSING = "\0missing"
_MOST_NAMED = 8
_MOST_CHARACTERS = 300  # of what a plugin or a script says
_QUOTED = re.compile("'(.*?)'")
_UNDEFINED = re.compile(r"'(\w+)' is undefined")


class Renderer:
    """Renders templates, and remembers each result with the values it was made from.

    It decrypts with the vault passwords that Ansible has.

    Attributes:
        at_run_time: names that only Ansible at run time knows.
    """

    at_run_time = DYNAMIC | AT_RUN_TIME

    def __init__(self) -> None:
        self._engine = Engine()
        self._known: dict[tuple[Any, ...], Any] = {}
        self._last: dict[str, tuple[dict[str, Any], Any]] = {}

    def render(self, text: str, template: Template, values: dict[str, Any]) -> Any:
        """Return what a template gives with the values of the variables that it mentions.

        Most have the very values of the host before, as groups and defaults share them.
        """
        before, result = self._last.get(text, ({}, None))
        if not (before and _are_same(before, values)):
            result = self._render(text, template, values)
            self._last[text] = (values, result)
        return result

    def _render(self, text: str, template: Template, values: dict[str, Any]) -> Any:
        try:
            return template.render(values)
        except LookupError:
            pass
        key = (text, *(f"{name}={values.get(name, _MISSING)!r}" for name in sorted(template.names)))
        if key not in self._known:
            self._known[key] = self._engine.render(text, values)
        return self._known[key]

    def render_freely(self, text: str, variables: Mapping[str, Any]) -> Any:
        """Return what a template gives that can read any variable."""
        return self._engine.render(text, variables)

    def is_encrypted(self, raw: object) -> bool:
        """Return whether a value is vaulted."""
        return isinstance(raw, EncryptedString)

    def explain(self, raw: object, error: Exception) -> ResolveError:
        """Return why a value cannot be rendered or decrypted."""
        at = position_of(raw)
        if isinstance(error, AnsibleVaultError):
            at = at or error_position(error)
            return ResolveError(at, *site_files.vault_words(error), "vault")
        text, remedy = error_text(error), "correct the template"
        if isinstance(error, AnsibleError) and "is undefined" in text:
            remedy = "write the missing variable, or correct its name"
        message = f"its template fails: {text}".removesuffix(": ")
        return ResolveError(at, message, remedy, "template")


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two hosts have the same objects; equal ones may be tagged otherwise."""
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)


def load_site(
    site: Path,
    limit: str | None = None,
    vault_password_file: Path | None = None,
    count: Callable[[int, int], None] = lambda _done, _total: None,
) -> Fleet:
    """Return the fleet of a site, with the problems of its files, names and types.

    Args:
        limit: an Ansible pattern; nodes outside it are not loaded.
        vault_password_file: decrypts vaulted values, in addition to Ansible's own settings.
        count: called with the number of hosts read and the number of all hosts.

    Raises:
        SiteError: the directory does not exist, or no selected host is a node.
        UsageError: a part of the limit matches no host.
    """
    site = site_directory(site)
    with mute() as warnings, no_collection():
        try:
            return _Loader(site, warnings, vault_password_file).fleet(limit, count)
        except AnsibleError as error:
            raise SiteError(
                f"{site}: Ansible cannot read the site: {error_text(error)}",
                "Correct the file that the message names, or run: "
                + ansible_command("ansible-inventory", "-i", site, "--list"),
            ) from error


class _Loader:
    def __init__(self, site: Path, warnings: list[tuple[str, object]], vault: Path | None) -> None:
        self._site = site
        self._warnings = warnings
        self._schema = schema.load_shipped()
        self._inventory = Inventory(site, vault)
        self._positions = HostPositions(site, self._inventory)
        self._renderer = Renderer()
        self._known: dict[str, tuple[dict[str, Any], list[str]]] = {}
        self._told: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._builder = NodeBuilder(site, self._schema, self._inventory, self._positions)

    def fleet(self, limit: str | None, count: Callable[[int, int], None]) -> Fleet:
        problems = list(site_files.problems(self._site, self._inventory))
        if problems:
            problems += duplicates(self._warnings)
            return Fleet(self._site, (), tuple(merge_problems(problems)))
        self._inventory.parse()
        problems += duplicates(self._warnings)
        problems += warned(self._positions, self._warnings)
        problems += unsafe_host_names(self._inventory.hosts, self._positions)
        problems += names.orphans(self._site, self._inventory.hosts, self._inventory.groups)
        if not self._inventory.hosts and not problems:
            problems.append(no_hosts(self._site))
        nodes: list[Node] = []
        selected = self._select(limit)
        for number, host in enumerate(selected):
            count(number, len(selected))
            node, found = self._builder.node(host, self._variables(host))
            nodes += [node] if node else []
            problems += [self._at_its_host(each) for each in found]
        if selected and not nodes:
            raise SiteError(
                f"{self._site}: {quantity(len(selected), 'host')} selected, and none is a node",
                "Write fabric_node: false for hosts that rdmaprov must leave alone, and no others.",
            )
        return Fleet(
            self._site,
            tuple(nodes),
            tuple(merge_problems(problems)),
            self._secrets,
            lambda name: self._variables(self._inventory.hosts[name]),
            self._role_variables,
            tuple(map(str, self._inventory.hosts)),
        )

    def _at_its_host(self, problem: Problem) -> Problem:
        """Return the problem of a template that lacks what other hosts set at its host instead."""
        lacks = _UNDEFINED.search(problem.message)
        values, groups = self._setters(lacks[1]) if lacks else ({}, [])
        if not lacks or problem.rule != "template":
            return problem
        name, (host, *_), at = lacks[1], problem.hosts, problem.position
        place = self._positions.host(host)
        if not (values or groups):
            first, *others = self._at_places.get(place, [host])
            if not others or place.file == str(self._site):
                return problem
            remedy = "a range gives its nodes no values of their own: in its place, write a line "
            remedy += f"for each, such as {first}: {{{name}: {self._number(first, {})}}}"
            return replace(problem, position=place, remedy=remedy)
        remedy = f"write {name} for it, or put it into a group that has it, as {some(groups, 2)}"
        if values:
            numbers = [each for each in values.values() if isinstance(each, int)]
            is_number = len(numbers) == len(values)
            new = self._number(host, {**values, **self._told[name]}) if is_number else name.upper()
            self._told[name][host] = new
            is_yaml = Path(place.file).suffix in site_files.YAML_SUFFIXES
            line = f"{host}: {{{name}: {new}}}" if is_yaml else f"{host} {name}={new}"
            remedy = f"write {line}, as {some(values, 2)} have theirs"
        message = f"{host} has no {name}, which {display_path(at.file, self._site)}:{at.line} needs"
        return replace(problem, position=place, message=message, remedy=remedy)

    @cached_property
    def _at_places(self) -> Mapping[Position, list[str]]:
        """The hosts that are named at each place, several by a range."""
        found: dict[Position, list[str]] = {}
        for name in map(str, self._inventory.hosts):
            found.setdefault(self._positions.host(name), []).append(name)
        return found

    @staticmethod
    def _number(host: str, taken: Mapping[str, Any]) -> int:
        """Return the number for a host: the last in its own name, else the next that is free."""
        own = re.findall(r"\d+", host.partition(".")[0])
        others = [each for other, each in taken.items() if other != host]
        return int(own[-1]) if own and int(own[-1]) not in others else max([0, *others]) + 1

    def _setters(self, name: str) -> tuple[dict[str, Any], list[str]]:
        """Return the hosts that set a variable, with its values, and the groups that do."""
        if name not in self._known:
            ours = self._inventory
            own = {str(k): ours.host_variables(v) for k, v in ours.hosts.items()}
            groups = {str(k): ours.group_own_variables(v) for k, v in ours.groups.items()}
            self._known[name] = (
                {host: each[name] for host, each in own.items() if name in each},
                [group for group, each in groups.items() if name in each],
            )
        return self._known[name]

    def _role_variables(self, name: str, defaults: Mapping[str, Any]) -> Variables:
        host = self._inventory.hosts[name]
        layers = self._inventory.group_variables(host), self._inventory.host_variables(host)
        raw = {**defaults, **layers[0], **layers[1]}
        return Variables(raw, self._builder.magic(host), self._renderer, certain=True)

    def _secrets(self) -> frozenset[str]:
        with mute():
            return secrets.find(self._inventory, self._variables)

    def _variables(self, host: Host) -> Variables:
        layers = self._inventory.group_variables(host), self._inventory.host_variables(host)
        raw = {**self._schema.defaults, **layers[0], **layers[1]}
        return Variables(raw, self._builder.magic(host), self._renderer)

    def _select(self, limit: str | None) -> list[Host]:
        try:
            chosen = self._inventory.select(limit)
        except NoMatch as error:
            if not self._inventory.hosts:  # which is the site's problem
                return []
            raise self._no_match(error.parts, error.why) from error
        if limit and not chosen and self._inventory.hosts:
            raise self._no_match([limit], "")
        return [host for host in chosen if names.is_safe(str(host.name))]

    def _no_match(self, parts: list[str], why: str) -> UsageError:
        site = display_path(str(self._site), Path.cwd())
        there = [*map(str, self._inventory.hosts), *map(str, self._inventory.groups)]
        near = [
            each
            for part in parts[:_MOST_NAMED]
            for each in difflib.get_close_matches(part.lstrip("!&"), there, n=1)
        ]
        question = f"Did you mean {', '.join(near)}? " if near else ""
        what = why or f"no host matches {printable(some(parts, _MOST_NAMED))}"
        command = ansible_command("ansible-inventory", "-i", site, "--graph")
        return UsageError(
            f"{site}: {what}", f"{question}List the site's hosts and groups: {command}"
        )


Warnings = Iterable[tuple[str, object]]
_TYPE = re.compile(r"\"<class '[\w.]*AnsibleTagged(\w+)'>\"")
_UNPARSED = "Unable to parse "


def duplicates(warnings: Warnings) -> Iterator[Problem]:
    """Yield the keys that are written twice in one dictionary."""
    for message, about in warnings:
        at = position_of(about)
        if at is not None and message.startswith("Found duplicate mapping key"):
            yield Problem(
                at,
                str(about),
                "is written twice, and the last one wins",
                "remove one of them",
                "yaml",
            )


def warned(positions: HostPositions, warnings: Warnings) -> Iterator[Problem]:
    """Yield the inventory files, and parts of them, that Ansible cannot use."""
    reasons: list[BaseException] = []
    for message, about in warnings:
        if isinstance(about, BaseException):
            # Each plugin that tries a file reports why it failed, before Ansible gives up the file.
            reasons.append(about)
        elif message.startswith(_UNPARSED):
            file = Path(message.removeprefix(_UNPARSED).split(" as an inventory source")[0])
            if file.is_file():
                yield _unusable(file, reasons)
            reasons = []
        elif message.startswith("Skipping "):
            yield _problem(_skipped_position(positions, message), message)


def _skipped_position(positions: HostPositions, message: str) -> Position:
    """Return the position of a group, or of a key in one, that Ansible skips."""
    if found := re.search(r"key \((.*?)\) in group \((.*?)\)", message):
        return positions.key(found[2], found[1])
    found = re.search(r"Skipping '(.*?)'", message)
    return positions.group(found[1] if found else "")


def _unusable(file: Path, reasons: list[BaseException]) -> Problem:
    """Return why a file is no inventory: in the words of the plugin that it is for."""
    by = {"".join(_QUOTED.findall(str(getattr(each, "obj", "")))[:1]): each for each in reasons}
    plugin = "yaml" if file.suffix in site_files.YAML_SUFFIXES else "ini"
    if "Plugin configuration YAML file" in str(by.get("yaml")):
        plugin = "auto"
    elif file.read_bytes()[:2] == b"#!":
        plugin = "script"
    reason = by.get(plugin) or next(iter(reasons), None)
    at = (reason and error_position(reason)) or Position(str(file))
    if plugin in by and plugin in ("auto", "script"):
        return _problem(at, *_plugin_words(by[plugin], file))
    if plugin == "script":
        return _problem(at, "it is not executable", f"run: chmod +x {shlex.quote(str(file))}")
    return _problem(at, error_text(reason) if reason else "the file is not an inventory")


def _plugin_words(reason: BaseException, file: Path) -> tuple[str, str]:
    """Return what an inventory plugin or a script says, and what to do."""
    said = str(getattr(reason, "_help_text", None) or "").partition("script:")[2]
    is_key = isinstance(reason.__cause__, KeyError)  # whose text is the key alone
    text = " ".join(f"{'no key ' if is_key else ''}{reason} {said}".split())
    remedy = f"see: {ansible_command('ansible-inventory', '-i', file, '--list')}"
    if found := re.search(r"unknown plugin '(\w+\.\w+)\.\w+'", text):
        install = ansible_command("ansible-galaxy", "collection", "install", found[1])
        remedy = f"install its collection: {install}"
    return re.sub(r"^Failed to parse '[^']*': ", "", text)[:_MOST_CHARACTERS], remedy


def _problem(
    at: Position, reason: str, remedy: str = "write groups with hosts, children and vars"
) -> Problem:
    text = f"Ansible cannot use this: {_TYPE.sub(lambda found: found[1].lower(), reason)}"
    return Problem(at, Path(at.file).name, text, remedy, "inventory")
