"""Load a stranger's site: YAML as data, within limits; nothing of it runs, nothing is decrypted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rdmaprov.inventory import names, schema
from rdmaprov.inventory.errors import SiteError, site_directory
from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.inventory.nodes import NodeBuilder, no_collection, no_hosts
from rdmaprov.inventory.site_files import YAML_SUFFIXES
from rdmaprov.inventory.untrusted import limits
from rdmaprov.inventory.untrusted.groups import PlainHost, PlainLayers, merge
from rdmaprov.inventory.untrusted.hosts import InventoryFiles
from rdmaprov.inventory.untrusted.judge import SiteJudge
from rdmaprov.inventory.untrusted.references import PlainRenderer, PlainVariables, parts
from rdmaprov.inventory.untrusted.tree import TooMuch, Tree, read_text, walk
from rdmaprov.inventory.untrusted.variables import checked_variables
from rdmaprov.inventory.yaml_scalars import VAULT_HEAD, Budget, YamlError
from rdmaprov.inventory.yaml_values import YamlReader
from rdmaprov.problem import Position, merge_problems

_MOST_ORPHANS = 20  # each looks for a similar name


def load_untrusted(
    site: Path, count: Callable[[int, int], None] = lambda _done, _total: None
) -> Fleet:
    """Return the fleet of a stranger's site; no nodes if anything of it is refused.

    Raises:
        SiteError: there is no such directory, or it is a link.

    """
    if site.is_symlink():
        raise SiteError(f"{site}: is a link", "Name the directory itself.")
    site = site_directory(site)
    loader = _UntrustedLoader(site)
    with no_collection():
        try:
            return loader.fleet(count)
        except TooMuch as error:
            return loader.refused_fleet(error)
        except OSError as error:
            raise SiteError(
                f"{error.filename}: {error.strerror}", "Let your user read the site."
            ) from error


class _UntrustedLoader:
    def __init__(self, site: Path) -> None:
        self._site = site
        self._judge = SiteJudge()
        self._budget = Budget(limits.MOST_VALUES)
        self._schema = schema.load_shipped()
        self._layers = PlainLayers(Position(str(site)))
        self._renderer = PlainRenderer()

    def refused_fleet(self, last: TooMuch) -> Fleet:
        """Return a fleet without nodes: what was refused before a limit, and the limit."""
        problems = merge_problems([*self._judge.problems, last.problem])
        return Fleet(self._site, (), tuple(problems))

    def fleet(self, count: Callable[[int, int], None]) -> Fleet:
        tree = walk(self._site)
        self._judge.problems += tree.problems[: limits.MOST_PROBLEMS]
        if not tree.problems:
            self._read(tree)
        problems = self._judge.problems
        if not problems and not self._layers.hosts:
            problems.append(no_hosts(self._site))
        if problems:
            return Fleet(self._site, (), tuple(merge_problems(problems)))
        return self._nodes(count)

    def _read(self, tree: Tree) -> None:
        inventory = InventoryFiles(self._layers, self._judge)
        for path in tree.inventory:
            inventory.take(Position(str(path)), self._content(path))
        self._layers.connect(self._judge)
        files: dict[tuple[str, ...], list[Path]] = {}
        for path in sorted(tree.variables):
            files.setdefault(path.relative_to(self._site).parts[:2], []).append(path)
        for group in self._layers.groups.values():
            group.files = self._files("group_vars", group.name, files)
        for host in self._layers.hosts.values():
            host.files = self._files("host_vars", host.name, files)
        orphans = names.orphans(self._site, self._layers.hosts, self._layers.groups)
        self._judge.problems += itertools.islice(orphans, _MOST_ORPHANS)

    def _content(self, path: Path) -> Any:
        """Return what a file has; None, and a problem, if it cannot be read."""
        at = Position(str(path))
        text = read_text(path)
        if text.startswith(VAULT_HEAD):
            message = "the file is encrypted, and --untrusted decrypts nothing"
            self._judge.refuse(at, [], message, "encrypt single values with !vault")
            return None
        if text.startswith("#!"):
            message = "Ansible would run this file"
            self._judge.refuse(at, [], message, "remove its first line")
            return None
        try:
            return YamlReader(str(path), text, self._judge, self._budget).read()
        except YamlError as error:
            place = Position(str(path), error.line, error.column)
            self._judge.stop(place, path.name, error.message, error.remedy)

    def _files(
        self, directory: str, name: str, files: Mapping[tuple[str, ...], list[Path]]
    ) -> dict[str, Any]:
        """Return the variables of a group or host; only the first name that exists counts."""
        candidates = ((directory, f"{name}{suffix}") for suffix in ("", *YAML_SUFFIXES))
        found = next((files[each] for each in candidates if each in files), [])
        return merge(self._variables(path) for path in found)

    def _variables(self, path: Path) -> dict[str, Any]:
        at = Position(str(path))
        content = self._content(path)
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            message = "the file is not a dictionary"
            self._judge.refuse(at, [], message, "write lines like `name: value`")
            return {}
        return dict(checked_variables(content, at, self._judge))

    def _nodes(self, count: Callable[[int, int], None]) -> Fleet:
        builder = NodeBuilder(self._site, self._schema, self._layers, self._layers)
        hosts = list(self._layers.ordered_hosts())
        self._require_bounded(hosts)
        nodes: list[Node] = []
        problems = []
        for number, host in enumerate(hosts):
            count(number, len(hosts))
            layers = self._layers.group_variables(host), self._layers.host_variables(host)
            raw = {**self._schema.defaults, **layers[0], **layers[1]}
            variables = PlainVariables(raw, builder.magic(host), self._renderer)
            node, found = builder.node(host, variables)
            nodes += [node] if node else []
            problems += found
        if not nodes:
            problems.append(no_hosts(self._site))
        return Fleet(self._site, tuple(nodes), tuple(merge_problems(problems)))

    def _require_bounded(self, hosts: list[PlainHost]) -> None:
        """Refuse more values than all hosts may have together, before nodes are made of them."""
        sizes: dict[int, int] = {}  # hosts of the same groups share their variables
        total = 0
        for host in hosts:
            shared = self._layers.group_variables(host)
            if id(shared) not in sizes:
                sizes[id(shared)] = parts(shared, limits.MOST_HOST_VALUES)
            own = self._layers.host_variables(host)
            total += sizes[id(shared)] + parts(own, limits.MOST_HOST_VALUES)
            if total > limits.MOST_HOST_VALUES:
                message = f"all hosts together have more than {limits.MOST_HOST_VALUES:,} values"
                self._judge.stop(host.at, host.name, message, "write fewer variables or hosts")
