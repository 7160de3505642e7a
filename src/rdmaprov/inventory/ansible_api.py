"""The one module that uses Ansible's internals to load a site and to render its templates.

Written against ansible-core 2.19. The names imported from `ansible._internal` are not promised to
stay; a new ansible-core is tried by running this project's tests.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ansible import constants
from ansible._internal._datatag._tags import Origin
from ansible._internal._templating._engine import TemplateEngine
from ansible._internal._yaml._constructor import AnsibleInstrumentedConstructor
from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.inventory.helpers import get_group_vars, sort_groups
from ansible.inventory.host import Host
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import AnsibleVaultError, EncryptedString, VaultSecretsContext
from ansible.plugins.loader import init_plugin_loader
from ansible.plugins.vars import host_group_vars
from ansible.utils.display import Display
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from rdmaprov.inventory.password_file import one_reader
from rdmaprov.inventory.tags import origin_position, position_of
from rdmaprov.problem import Position
from rdmaprov.resources import collections_dir

# Ansible's sentences that only announce a cause.
_GENERIC = frozenset(
    {
        "",
        "Error rendering template",
        "Failed to parse inventory",
        "Syntax error in template",
        "YAML parsing failed",
    }
)

# Variables that Ansible sets itself, whatever a site sets.
AT_RUN_TIME = frozenset({"omit", *constants.INTERNAL_STATIC_VARS})

__all__ = [
    "AT_RUN_TIME",
    "AnsibleError",
    "AnsibleUndefinedVariable",
    "AnsibleVaultError",
    "EncryptedString",
    "Engine",
    "Host",
    "Inventory",
    "NoMatch",
    "combine_vars",
    "error_position",
    "error_text",
    "find_plugins",
    "import_plugin",
    "mute",
]


def error_position(error: BaseException) -> Position | None:
    """Return the place that an error of Ansible's, or one that caused it, is about."""
    seen: BaseException | None = error
    while seen is not None:
        found = position_of(getattr(seen, "obj", None))
        if found is None and isinstance(origin := getattr(seen, "obj", None), Origin):
            found = origin_position(origin)
        if found is not None:
            return found
        seen = seen.__cause__ or seen.__context__
    return None


def error_text(error: BaseException) -> str:
    """Return an error's own sentence on one line, without Ansible's wrapping."""
    text = str(getattr(error, "_original_message", None) or getattr(error, "message", "") or error)
    cause = error.__cause__
    is_generic = text.strip().rstrip(".") in _GENERIC
    if isinstance(error, AnsibleError) and cause is not None and is_generic:
        return error_text(cause)
    return " ".join(text.split()).rstrip(".")


class NoMatch(Exception):
    """Parts of a pattern that match no host.

    Attributes:
        why: what Ansible says of them; empty if they only match nothing.
    """

    def __init__(self, parts: list[str], why: str = "") -> None:
        super().__init__(why)
        self.parts, self.why = parts, why


@contextmanager
def mute() -> Iterator[list[tuple[str, object]]]:
    """Silence Ansible; yield a list that fills with its warnings and their objects."""
    display = Display()
    warnings: list[tuple[str, object]] = []

    def record(msg: object = "", *_args: object, obj: object = None, **_kwargs: object) -> None:
        warnings.append((str(msg), obj))

    def record_error(msg: object, exception: object, *_args: object, **_kwargs: object) -> None:
        warnings.append((str(msg), exception))

    replaced: dict[str, Callable[..., None]] = dict.fromkeys(
        ("display", "warning", "deprecated", "error"), record
    )
    replaced["error_as_warning"] = record_error
    for name, function in replaced.items():
        setattr(display, name, function)
    try:
        yield warnings
    finally:
        for name in replaced:
            delattr(display, name)


def _position(constructor: Any, node: Any) -> Origin:
    """Return what Ansible's own method does, at a third of the cost of its general `replace`."""
    start, file = node.start_mark, constructor._origin
    line, column = start.line + file.line_num, start.column + 1
    return Origin(path=file.path, description=file.description, line_num=line, col_num=column)


AnsibleInstrumentedConstructor._node_position_info = _position  # of each value of a file


class _CachingLoader(DataLoader):  # type: ignore[misc] # Ansible has no types
    """Ansible's loader with a cache: each YAML file is read once."""

    def load_from_file(
        self, file_name: str, cache: str = "all", unsafe: bool = False, **options: Any
    ) -> Any:
        # Nothing here changes the parsed values, so no copy: 5,000 hosts would take a minute.
        cache, unsafe = ("all" if cache == "none" else cache), True
        return super().load_from_file(file_name, cache=cache, unsafe=unsafe, **options)


def read_yaml(path: Path) -> Any:
    """Return the content of one of rdmaprov's own YAML files, with the position of every value."""
    return _CachingLoader().load_from_file(str(path), trusted_as_template=True, unsafe=True)


class Inventory:
    """A site as Ansible reads it, with the variables of groups and hosts."""

    def __init__(self, site: Path, vault_password_file: Path | None = None) -> None:
        find_plugins()
        _forget()
        self._loader = _CachingLoader()
        self._loader.set_basedir(str(site))
        secrets = _read_secrets(self._loader, vault_password_file)
        self._loader.set_vault_secrets(secrets)
        VaultSecretsContext.initialize(VaultSecretsContext(secrets))
        self._sources = [str(site)]
        self._manager = InventoryManager(self._loader, sources=self._sources, parse=False)
        self._group_layers: dict[tuple[str, ...], dict[str, Any]] = {}
        self._host_layers: dict[str, dict[str, Any]] = {}

    def read_file(self, path: Path) -> Any:
        """Return the content of a YAML file; raise AnsibleError if it cannot be read."""
        return self._loader.load_from_file(str(path), trusted_as_template=True, unsafe=True)

    def parse(self) -> None:
        """Read every inventory file of the site."""
        self._manager.parse_sources(cache=False)

    @property
    def groups(self) -> Mapping[str, Any]:
        """The groups by name, `all` and `ungrouped` among them."""
        groups: Mapping[str, Any] = self._manager.groups
        return groups

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name, whatever the limit."""
        hosts: Mapping[str, Host] = self._manager.hosts
        return hosts

    def select(self, pattern: str | None) -> list[Host]:
        """Return the hosts that Ansible's --limit would select.

        Raises:
            NoMatch: a part of the pattern matches none, or it has no part; Ansible takes all then.
        """
        try:
            self._manager.subset(pattern)
        except (AnsibleError, OSError, UnicodeDecodeError) as error:  # of an @file
            raise NoMatch([str(pattern)], error_text(error)) from error
        parts = [part for part in self._manager._subset or () if part]
        unmatched = [part for part in parts if not self._matches(part)]
        if unmatched or (pattern is not None and not parts):
            raise NoMatch(unmatched or [str(pattern)])
        chosen: list[Host] = self._manager.get_hosts("all")
        return chosen

    def _matches(self, part: str) -> bool:
        """Return whether one part of a pattern, without its `!` or `&`, has a host."""
        if part in self.hosts:
            return True
        try:  # IndexError: a sign alone; a host that Ansible adds is not of the site
            found = self._manager._match_one_pattern(part)
        except (AnsibleError, IndexError):
            return False
        return any(host.name in self.hosts for host in found)

    def groups_of(self, host: Host) -> list[Any]:
        """Return the host's groups in the order in which they override each other."""
        groups: list[Any] = sort_groups(host.get_groups())
        return groups

    def group_own_variables(self, group: Any) -> dict[str, Any]:
        """Return the variables of one group, from the inventory and group_vars."""
        return self._layer(group.vars, group)

    def group_variables(self, host: Host) -> dict[str, Any]:
        """Return the host's variables from its groups, by Ansible's default precedence.

        Hosts in the same groups share the result, which keeps 5,000 hosts fast.
        """
        groups = self.groups_of(host)
        key = tuple(group.name for group in groups)
        if key not in self._group_layers:
            everyone, others = [self.groups["all"]], [g for g in groups if g.name != "all"]
            layers = [
                *(get_group_vars(part) for part in (everyone, others)),
                *(self._plugins(group) for group in (*everyone, *others)),
            ]
            self._group_layers[key] = _combine(layers)
        return self._group_layers[key]

    def host_variables(self, host: Host) -> dict[str, Any]:
        """Return the variables of one host, from the inventory and host_vars."""
        if host.name not in self._host_layers:
            self._host_layers[host.name] = self._layer(host.vars, host)
        return self._host_layers[host.name]

    def _layer(self, own: dict[str, Any], entity: Any) -> dict[str, Any]:
        return _combine([own, self._plugins(entity)])

    def _plugins(self, entity: Any) -> dict[str, Any]:
        found: dict[str, Any] = get_vars_from_inventory_sources(
            self._loader, self._sources, [entity], "task"
        )
        return found


def _combine(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the layers merged by Ansible's own rule; the later one's keys and values stay.

    A plain dictionary would keep the first layer's key. The key holds the position of `true` and
    `false`, which cannot hold one themselves.
    """
    result: dict[str, Any] = {}
    for layer in layers:
        merged = combine_vars(result, layer)
        for key in layer:
            value = merged.pop(key)
            merged[key] = value
        result = merged
    return result


def _read_secrets(loader: DataLoader, password_file: Path | None) -> list[Any]:
    """Return the vault passwords that the configuration and a file give."""
    identities = list(constants.DEFAULT_VAULT_IDENTITY_LIST)
    if not (identities or password_file or constants.DEFAULT_VAULT_PASSWORD_FILE):
        return []
    from ansible.cli import CLI  # its import takes a fifth of a start, and few sites need it

    with one_reader(password_file):
        secrets: list[Any] = CLI.setup_vault_secrets(
            loader,
            vault_ids=identities,
            vault_password_files=[str(password_file)] if password_file else [],
            auto_prompt=False,
            initialize_context=False,
        )
    return secrets


@cache
def find_plugins() -> None:
    """Set up Ansible's plugin loader, once per process."""
    init_plugin_loader([collections_dir()])


@cache
def import_plugin(name: str) -> Any:
    """Return a module of our collection's plugins, such as module_utils.arguments."""
    find_plugins()
    return importlib.import_module(f"ansible_collections.rdmaprov.node.plugins.{name}")


def _forget() -> None:
    """Empty Ansible's caches, which it keeps for a whole process and for every site."""
    VaultSecretsContext._current = None
    for kept in (host_group_vars.CANONICAL_PATHS, host_group_vars.FOUND, host_group_vars.NAK):
        kept.clear()


class Engine:
    """Ansible's template engine, which compiles each template once.

    Ansible compiles a template each time it renders it, which takes most of the time.
    """

    def __init__(self) -> None:
        self._engine = TemplateEngine()
        self._compiled: dict[tuple[str, object], Any] = {}
        compile_template = self._engine._compile_template

        def compile_once(template: str, options: Any) -> Any:
            key = (str(template), options)
            if key not in self._compiled:
                self._compiled[key] = compile_template(template, options)
            return self._compiled[key]

        self._engine._compile_template = compile_once

    def render(self, template: str, variables: Mapping[str, Any]) -> Any:
        """Return what a template gives; raise AnsibleError if it cannot be rendered."""
        self._engine.available_variables = dict(variables)
        return self._engine.template(template)
