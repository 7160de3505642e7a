"""Variables with their templates rendered, as Ansible renders them for a role."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rdmaprov.inventory.expression import DYNAMIC, Template, parse
from rdmaprov.inventory.tags import is_template, position_of
from rdmaprov.problem import Position

MISSING = "\0missing"
# A node with 32 rails has some hundred; YAML's aliases can make billions of a few lines.
MOST_PARTS = 20_000


class ResolveError(Exception):
    """A variable has no value: its template fails, or it is encrypted and there is no password."""

    def __init__(self, position: Position | None, message: str, remedy: str, rule: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message
        self.remedy = remedy
        self.rule = rule


def vault_words(error: Exception) -> tuple[str, str]:
    """Return why something stays encrypted, and what to do."""
    if "no vault secrets found" in str(error):
        remedy = "pass --vault-password-file FILE, or set ANSIBLE_VAULT_PASSWORD_FILE"
        return "is encrypted, and no vault password is given", remedy
    return "is encrypted, and the given vault password does not decrypt it", "pass the right one"


class AnyEngine(Protocol):
    """Renders one template."""

    def render(self, template: str, variables: Mapping[str, Any]) -> Any:
        """Return what a template gives; raise an error if it cannot be rendered."""


class Renderer:
    """Renders templates and remembers each result with the values it was made from.

    Attributes:
        at_run_time: names that only Ansible at run time knows.
    """

    at_run_time = DYNAMIC

    def __init__(self, engine: AnyEngine) -> None:
        self._engine = engine
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
        key = (text, *(f"{name}={values.get(name, MISSING)!r}" for name in sorted(template.names)))
        if key not in self._known:
            self._known[key] = self._engine.render(text, values)
        return self._known[key]

    def render_freely(self, text: str, variables: Mapping[str, Any]) -> Any:
        """Return what a template gives that can read any variable."""
        return self._engine.render(text, variables)

    def is_encrypted(self, _raw: object) -> bool:
        """Return whether a value is vaulted."""
        return False

    def explain(self, raw: object, error: Exception) -> ResolveError:
        """Return why a value cannot be rendered or decrypted."""
        message = f"its template fails: {error}"
        return ResolveError(position_of(raw), message, "correct the template", "template")


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two hosts have the same objects; equal ones may be tagged otherwise."""
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)


class Variables:
    """One host's variables, resolved when asked for.

    Args:
        raw: the variables as written, role defaults below the site's.
        magic: what Ansible itself adds, such as inventory_hostname.
        renderer: shared by the hosts of a fleet.
        certain: whether to refuse templates that need what only Ansible at run time knows.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        magic: Mapping[str, Any],
        renderer: Renderer,
        *,
        certain: bool = False,
    ) -> None:
        self._certain = certain
        self._raw = raw
        self._magic = magic
        self._renderer = renderer
        self._done: dict[str, Any] = {}
        self._open: list[str] = []
        self._parts_left = MOST_PARTS

    def __contains__(self, name: str) -> bool:
        """Return whether there is such a variable."""
        return name in self._raw or name in self._magic

    def value(self, name: str) -> Any:
        """Return a variable's value.

        Raises:
            ResolveError: it, or one that it is made from, has none.
            KeyError: there is no such variable.
        """
        if name in self._done:
            return self._done[name]
        if name not in self._raw:
            return self._magic[name]
        if name in self._open:
            loop = " → ".join([*self._open[self._open.index(name) :], name])
            raise ResolveError(
                position_of(self._raw[name]),
                f"refers to itself: {loop}",
                "write a value in place of one of these templates",
                "template",
            )
        self._open.append(name)
        self._parts_left = MOST_PARTS
        try:
            self._done[name] = self._resolve(self._raw[name])
        except RecursionError as error:
            raise _endless_error(self._raw[name]) from error
        finally:
            self._open.pop()
        return self._done[name]

    def mentions(self, name: str) -> bool:
        """Return whether a template of a variable mentions another one."""
        whole = re.compile(rf"\b{re.escape(name)}\b")
        return any(has_template(raw) and whole.search(str(raw)) for raw in self._raw.values())

    def render(self, raw: Any) -> Any:
        """Return a value that is not a variable's, such as a task's, with its templates rendered.

        Raises:
            ResolveError: one has no value.
        """
        self._parts_left = MOST_PARTS
        return self._resolve(raw)

    def _resolve(self, raw: Any) -> Any:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise RecursionError
        if isinstance(raw, str):
            return self._template(raw) if is_template(raw) else raw
        if isinstance(raw, (int, float)):  # as most of the others: asking for less takes less time
            return raw
        if self._renderer.is_encrypted(raw):
            return self._guard(raw, lambda: str(raw))
        if isinstance(raw, Mapping):
            entries = {key: self._resolve(item) for key, item in raw.items()}
            return entries if any(entries[key] is not raw[key] for key in raw) else raw
        if isinstance(raw, (list, tuple)):
            items = [self._resolve(item) for item in raw]
            return items if any(a is not b for a, b in zip(items, raw, strict=True)) else raw
        return raw

    def _template(self, text: str) -> Any:
        template = parse(str(text))
        if self._certain and (later := self._known_later(template)):
            message = f"only Ansible knows {', '.join(later)}, at run time"
            raise ResolveError(
                position_of(text), message, "write a value in place of the template", "template"
            )
        if template.dynamic:
            everything = {**self._raw, **self._magic}
            return self._guard(text, lambda: self._renderer.render_freely(text, everything))
        values = {name: self.value(name) for name in template.names if name in self}
        return self._guard(text, lambda: self._renderer.render(text, template, values))

    def _known_later(self, template: Template) -> list[str]:
        """Return the variables of a template that only Ansible at run time knows."""
        return sorted(
            name
            for name in template.names
            if name not in self._magic
            and (
                name in self._renderer.at_run_time
                or (name.startswith("ansible_") and name not in self._raw)
            )
        )

    def _guard(self, raw: Any, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            raise self._renderer.explain(raw, error) from error


def has_template(raw: Any) -> bool:
    """Return whether any part of a value is a template."""
    if isinstance(raw, Mapping):
        return any(has_template(item) for item in raw.values())
    if isinstance(raw, (list, tuple)):
        return any(has_template(item) for item in raw)
    return is_template(raw)


def _endless_error(raw: Any) -> ResolveError:
    message = f"contains itself, or more than {MOST_PARTS} parts"
    return ResolveError(position_of(raw), message, "write it without YAML aliases", "template")
