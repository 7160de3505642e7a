"""The only templates of a stranger's site that get a value: references to other variables.

`{{ name }}`, a part of it as `{{ name[-2:] }}`, and `| int` behind either. They are replaced here,
by a regular expression: Jinja never sees a stranger's text. Most sites need no more to number their
addresses. Other templates are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2.filters import do_int

from rdmaprov.inventory.expression import evaluate
from rdmaprov.inventory.resolve import Renderer, ResolveError, Variables
from rdmaprov.inventory.tags import has_mark, is_template, position_of
from rdmaprov.inventory.untrusted.limits import MOST_TEXT
from rdmaprov.inventory.yaml_scalars import Vaulted

SUPPORTED = "{{ name }}, {{ name[-2:] }} and {{ name | int }}"
_REFERENCE = re.compile(
    r"(?<!\{)\{\{ {0,4}([A-Za-z_]\w{0,127})(?:\[(-?\d{1,4})?:(-?\d{1,4})?\])?"
    r" {0,4}(\| {0,4}int {0,4})?\}\}",
    re.ASCII,
)
# Ansible reads other marks behind this, at the beginning of a text.
_OVERRIDE = "#jinja2:"


def is_refused(text: str) -> bool:
    """Return whether Ansible would template a text that is more than references."""
    if text.startswith(_OVERRIDE):
        return True
    return has_mark(text) and has_mark(_REFERENCE.sub("", text))


class OwnEngine:
    """Renders the defaults of rdmaprov's own roles; a stranger's values are only its data."""

    def render(self, template: str, variables: Mapping[str, Any]) -> Any:
        """Return what a template gives; raise an error if it cannot be rendered."""
        return evaluate(template, dict(variables))


class PlainRenderer(Renderer):
    """Renders without Ansible; what is vaulted stays so."""

    def __init__(self) -> None:
        super().__init__(OwnEngine())

    def is_encrypted(self, raw: object) -> bool:
        """Return whether a value is vaulted."""
        return isinstance(raw, Vaulted)

    def explain(self, raw: object, error: Exception) -> ResolveError:
        """Return why a value cannot be rendered, or that it is encrypted."""
        if isinstance(raw, Vaulted):
            message = "is encrypted, and --untrusted decrypts nothing"
            return ResolveError(None, message, "write it without !vault", "vault")
        return super().explain(raw, error)


class PlainVariables(Variables):
    """One host's variables of a stranger's site."""

    def _text(self, raw: str) -> Any:
        if is_template(raw):
            return self._template(raw)  # of a role's default
        return self._substitute(raw) if "{{" in raw else raw

    def _substitute(self, text: str) -> Any:
        matches = list(_REFERENCE.finditer(text))
        if len(matches) == 1 and matches[0][0] == text:
            return self._referred(text, matches[0])
        pieces: list[str] = []
        end = length = 0
        for match in matches:
            value = self._referred(text, match)
            if isinstance(value, bool) or not isinstance(value, (str, int)):
                message = f"{match[1]} is neither text nor a whole number"
                raise _error(text, message, "join only texts and whole numbers")
            pieces += [text[end : match.start()], str(value)]
            end = match.end()
            length += len(pieces[-1])
            if length > MOST_TEXT:
                message = f"its references make a text of more than {MOST_TEXT:,} characters"
                raise _error(text, message, "shorten the text")
        return "".join([*pieces, text[end:]])

    def _referred(self, text: str, match: re.Match[str]) -> Any:
        name, first, last, to_int = match.groups()
        if name not in self:
            message = f"its template fails: '{name}' is undefined"
            raise _error(text, message, "write the missing variable, or correct its name")
        left = self._parts_left
        value = self.value(name)
        self._parts_left = left - parts(value, left)
        if self._parts_left < 0:
            raise RecursionError
        if ":" in match[0]:
            if not isinstance(value, str):
                raise _error(text, f"{name} is not text", "take a part of a text only")
            value = value[int(first) if first else None : int(last) if last else None]
        return do_int(value) if to_int else value


def parts(value: Any, most: int) -> int:
    """Return of how many parts a value is made, at most one more than a number."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        each = waiting.pop()
        count += 1
        if isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
    return count


def _error(text: str, message: str, remedy: str) -> ResolveError:
    return ResolveError(position_of(text), message, remedy, "template")
