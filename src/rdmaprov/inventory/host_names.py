"""Names of hosts and groups, of YAML that is read as data: nothing of a site is run."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import yaml

from rdmaprov.inventory.names import is_safe
from rdmaprov.inventory.site_files import IGNORED, text_problems

_MOST = 100_000
_LEVELS = 3  # of groups: all, its children, and theirs
_RANGE = re.compile(r"(.*)\[(\d{1,6}):(\d{1,6})\](.*)")


def known_names(site: Path) -> set[str]:
    """Return the groups and hosts that the YAML files of a site's own directory write out.

    They are composed and never constructed: no tag, template, plugin, script or vault is looked at.
    What only Ansible knows is missing, and so is a file that is no YAML.
    """
    files = sorted(path for path in site.iterdir() if path.suffix in {".yml", ".yaml"})
    names = (name for path in files if not IGNORED.search(path.name) for name in _names_in(path))
    return {name for name in islice(names, _MOST) if is_safe(name)}


def _names_in(path: Path) -> Iterator[str]:
    try:
        if not path.is_file() or next(text_problems(path), None) is not None:
            return
        root = yaml.compose(path.read_text(), Loader=yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError):
        return
    if all(name != "plugin" for name, _ in _entries(root)):
        yield from _of_groups(root, _LEVELS)


def _of_groups(groups: yaml.Node | None, levels: int) -> Iterator[str]:
    for name, group in _entries(groups) if levels else ():
        yield name
        for part, inner in _entries(group):
            if part == "hosts":
                for host, _ in _entries(inner):
                    yield from _expanded(host)
            elif part == "children":
                yield from _of_groups(inner, levels - 1)


def _entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the keys of a dictionary, as written, with their values."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            yield key.value, value


def _expanded(name: str) -> Iterator[str]:
    """Yield the hosts of a name such as gpu[01:16], as Ansible counts them."""
    if (found := _RANGE.fullmatch(name)) is None:
        yield name
        return
    head, first, last, tail = found.groups()
    for number in range(int(first), int(last) + 1):
        yield f"{head}{number:0{len(first)}}{tail}"
