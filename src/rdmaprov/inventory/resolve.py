"""Variables with their templates rendered, as Ansible renders them for a role."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rdmaprov.inventory.expression import Template, parse
from rdmaprov.inventory.tags import is_template, position_of
from rdmaprov.problem import Position

if TYPE_CHECKING:
    from rdmaprov.inventory.load import Renderer

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
        renderer: "Renderer",
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
