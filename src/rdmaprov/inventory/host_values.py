"""A host's variables, converted to their types, and its rails."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rdmaprov.inventory.coerce import INVALID, Path, coerce
from rdmaprov.inventory.model import Interface, Rail
from rdmaprov.inventory.resolve import ResolveError, Variables, has_template
from rdmaprov.inventory.schema import Option
from rdmaprov.inventory.tags import position_of
from rdmaprov.inventory.type_messages import as_written
from rdmaprov.problem import Position, Problem

if TYPE_CHECKING:
    from rdmaprov.inventory.host_positions import HostPositions

_Issue = tuple[Path, str, str]


class Converter:
    """Converts the variables of a fleet's hosts; a value that hosts share is converted once."""

    def __init__(self, options: Mapping[str, Option], defaults: Mapping[str, Any]) -> None:
        self._options = options
        # By identity: the value is kept, so that no other value gets its id.
        self._known: dict[tuple[str, int], tuple[Any, Any, tuple[_Issue, ...]]] = {}
        self._varied: dict[frozenset[str], list[tuple[str, Option]]] = {}

        # Defaults that are the same on every node, converted once.
        self._constants: dict[str, Any] = {}
        for name, raw in defaults.items():
            if not has_template(raw):
                self._constants[name] = self._convert(options[name], raw)[0]
        self._constant_names = frozenset(self._constants)

    def values(
        self, host: str, variables: Variables, locate: Locator
    ) -> tuple[dict[str, Any], list[Problem]]:
        """Return the valid values by name, and the problems of the others."""
        values = dict(self._constants)
        problems: list[Problem] = []
        derived: list[Problem] = []
        for name, option in self._varying(locate):
            values.pop(name, None)
            if name not in variables:
                if option.required:
                    problems.append(_missing(option, locate, host))
                continue
            try:
                raw = variables.value(name)
            except ResolveError as error:
                wrong = _unresolved(name, error, locate, host)
                (problems if locate.writes(name) else derived).append(wrong)
                continue
            value, issues = self._convert(option, raw)
            (problems if locate.writes(name) else derived).extend(
                _wrong(name, raw, issue, locate, host) for issue in issues
            )
            if value is not INVALID:
                values[name] = value
        # A default that is derived from a wrong value fails too: report only the cause.
        return values, problems or derived

    def _varying(self, locate: Locator) -> list[tuple[str, Option]]:
        """Return the options whose values may not be a constant's on a host."""
        written = locate.written & self._constant_names
        if written not in self._varied:
            self._varied[written] = [
                (name, option)
                for name, option in self._options.items()
                if name not in self._constants or name in written
            ]
        return self._varied[written]

    def _convert(self, option: Option, raw: Any) -> tuple[Any, tuple[_Issue, ...]]:
        key = (option.name, id(raw))
        if key not in self._known:
            issues: list[_Issue] = []
            value = coerce(option, raw, lambda *issue: issues.append(issue))
            self._known[key] = (raw, value, tuple(issues))
        _, value, found = self._known[key]
        return value, found


def _wrong(name: str, raw: Any, issue: _Issue, locate: Locator, host: str) -> Problem:
    path, message, remedy = issue
    at = locate(name, *path)
    for step in path:
        raw = raw[step]
    return Problem(at, name, *as_written(raw, at, message, remedy), "types", (host,))


def _missing(option: Option, locate: Locator, host: str) -> Problem:
    choices = f": {' or '.join(str(choice) for choice in option.choices)}" if option.choices else ""
    return Problem(
        locate(option.name),
        option.name,
        "is missing",
        f"write {option.name} into group_vars/all.yml{choices}"
        if option.name != "fabric_rails"
        else "write the node's rails, or read them with: rdmaprov discover",
        "required",
        (host,),
    )


def _unresolved(name: str, error: ResolveError, locate: Locator, host: str) -> Problem:
    at = error.position if locate.writes(name) else None
    at = at or locate(name)
    return Problem(at, name, error.message, error.remedy, error.rule, (host,))


def rails(
    host: str, described: list[Mapping[str, Any]], locate: Locator
) -> tuple[tuple[Rail, ...], list[Problem]]:
    """Return fabric_rails as rails, and the problems of their addresses."""
    found: list[Rail] = []
    problems: list[Problem] = []
    for index, entry in enumerate(described):
        address, wrong = _interface(str(entry.get("address", "")))
        if wrong:
            at = locate("fabric_rails", index, "address")
            remedy = "write an address with its prefix length, such as 198.18.0.1/24"
            problems.append(Problem(at, "fabric_rails", wrong, remedy, "addresses", (host,)))
        found.append(
            Rail(
                index,
                str(entry.get("netdev", "")),
                str(entry.get("pci", "")).lower(),
                address,
                str(entry.get("gateway", "")),
                tuple(entry.get("gpus", ())),
                str(entry.get("use", "compute")),
                int(entry.get("link_gbps", 0)),
                bool(entry.get("vlan", False)),
                str(entry.get("rdma", "")),
                str(entry.get("leaf", "")),
                tuple(map(str, entry["pkeys"])) if "pkeys" in entry else None,
                str(entry.get("subnet_prefix", "")),
                str(entry.get("switch_port", "")),
                str(entry.get("ipoib_pkey", "")),
            )
        )
    return tuple(found), problems


def _interface(text: str) -> tuple[Interface | None, str]:
    if not text:
        return None, ""
    if "/" not in text:
        return None, f"address '{text}' has no prefix length"
    try:
        return ipaddress.ip_interface(text), ""
    except ValueError:
        return None, f"'{text}' is not an IP address"


@dataclass(frozen=True)
class Locator:
    """Finds positions in the layers of one host's variables."""

    host: str  # its name; its position stands for variables that are written nowhere
    layers: tuple[Mapping[str, Any], ...]  # its variables, highest precedence first
    positions: HostPositions

    def __call__(self, name: str, *path: str | int) -> Position:
        """Return where the variable is written, as near to the part at `path` as is known.

        A variable that is a template, or that only has its role's default, has no parts; one
        that the site does not write at all is at its host.
        """
        for layer in self.layers:
            if name in layer:
                return self._inside(layer, name, path) or self.positions.host(self.host)
        return self.positions.host(self.host)

    def writes(self, name: str) -> bool:
        """Return whether the site itself sets the variable."""
        return name in self.written

    @cached_property
    def written(self) -> frozenset[str]:
        """Return the names of the variables that the site itself sets."""
        return frozenset(str(name) for layer in self.layers for name in layer)

    @staticmethod
    def _inside(layer: Mapping[str, Any], name: str, path: Sequence[str | int]) -> Position | None:
        best: Position | None = None
        current: Any = layer
        for step in (name, *path):
            if isinstance(current, Mapping) and step in current:
                key = next(key for key in current if key == step)
                best = position_of(current[step]) or position_of(key) or best
                current = current[step]
            elif isinstance(current, list) and isinstance(step, int) and step < len(current):
                current = current[step]
                best = position_of(current) or best
            else:
                break
        return best
