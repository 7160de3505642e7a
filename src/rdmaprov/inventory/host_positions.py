"""The positions of hosts and groups in a site's inventory files."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.inventory import expand_hostname_range

from rdmaprov.inventory import site_files
from rdmaprov.inventory.ansible_api import AnsibleError, Inventory
from rdmaprov.inventory.tags import position_of
from rdmaprov.problem import Position

_INI_HOST = re.compile(r"^\s*([^\s#;\[=]\S*)")
_INI_GROUP = re.compile(r"^\[([^\]:]+)(?::\w+)?\]")


class HostPositions:
    """Positions of hosts and groups, looked up when a problem needs one."""

    def __init__(self, site: Path, inventory: Inventory) -> None:
        self._site = site
        self._inventory = inventory
        self._hosts: dict[str, Position] | None = None
        self._groups: dict[str, Position] = {}

    def host(self, name: str) -> Position:
        """Return where a host is named, or the site's directory if that is unknown."""
        if self._hosts is None:
            self._hosts = {}
            self._read()
        return self._hosts.get(name, Position(str(self._site)))

    def group(self, name: str) -> Position:
        """Return where a group is named, or the site's directory if that is unknown."""
        self.host("")
        return self._groups.get(name, Position(str(self._site)))

    def key(self, group: str, name: str) -> Position:
        """Return where a key of a group is written, or where the group is named."""
        self.host("")
        return self._groups.get(f"{group}/{name}") or self.group(group)

    def _read(self) -> None:
        for path in site_files.inventory_files(self._site):
            if path.suffix in site_files.YAML_SUFFIXES:
                self._read_yaml(path)
            else:
                self._read_ini(path)

    def _read_yaml(self, path: Path) -> None:
        try:
            content = self._inventory.read_file(path)
        except (AnsibleError, ValueError, RecursionError):
            return
        if isinstance(content, Mapping):
            self._groups_of(content)

    def _groups_of(self, groups: Mapping[Any, Any]) -> None:
        for name, body in groups.items():
            self._note(self._groups, str(name), position_of(name))
            if not isinstance(body, Mapping):
                continue
            for key in body:
                self._note(self._groups, f"{name}/{key}", position_of(key))
            hosts, children = body.get("hosts"), body.get("children")
            for pattern in hosts if isinstance(hosts, Mapping) else ():
                for host in expand_range(str(pattern)):
                    assert self._hosts is not None  # noqa: S101 - set by host()
                    self._note(self._hosts, host, position_of(pattern))
            if isinstance(children, Mapping):
                self._groups_of(children)

    def _read_ini(self, path: Path) -> None:
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return
        section = ""
        for number, line in enumerate(lines, start=1):
            place = Position(str(path), number)
            if found := _INI_GROUP.match(line):
                section = line
                self._note(self._groups, found[1], place)
            elif ":" not in section and (found := _INI_HOST.match(line)):
                for host in expand_range(found[1]):
                    assert self._hosts is not None  # noqa: S101 - set by host()
                    self._note(self._hosts, host, place)

    @staticmethod
    def _note(table: dict[str, Position], name: str, place: Position | None) -> None:
        if place is not None:
            table.setdefault(name, place)


def expand_range(pattern: str) -> Iterator[str]:
    """Yield the names of a pattern such as node[01:16]; the pattern itself if it has no range."""
    if "[" not in pattern:
        yield pattern
        return
    try:
        yield from expand_hostname_range(pattern)
    except (AnsibleError, ValueError):
        yield pattern
