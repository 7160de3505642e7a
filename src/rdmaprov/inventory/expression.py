"""Templates that are simple enough to render without Ansible, and what a template depends on.

Ansible takes a fifth of a millisecond to render a compiled template. A site whose rails have
addresses like `10.{{ rack }}.0.{{ unit }}/24` has eight of them for each node, each with another
result, so that none can be remembered. Texts, names and arithmetic are rendered here instead;
tests hold the result against Ansible's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, meta, nodes

# Names that reach other variables than those a template names, or something that changes.
DYNAMIC = frozenset({"hostvars", "vars", "lookup", "query", "q", "now", "groups"})

_OPERATORS: dict[type[nodes.BinExpr], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}
# Ansible tags values with subclasses of these types.
_PLAIN = (int, str)


@dataclass(frozen=True)
class Template:
    """A parsed template.

    Args:
        names: the variables it mentions; empty if it cannot be parsed.
        pieces: its texts and expressions if it is simple, else None.

    """

    names: frozenset[str]
    pieces: tuple[str | nodes.Expr, ...] | None

    @property
    def dynamic(self) -> bool:
        """Whether what it mentions does not say all that it depends on."""
        return bool(self.names & DYNAMIC)

    def render(self, variables: Mapping[str, Any]) -> Any:
        """Return what a simple template gives; raise LookupError when Ansible must decide."""
        if self.pieces is None:
            raise LookupError
        values = [p if isinstance(p, str) else _value(p, variables) for p in self.pieces]
        if len(values) == 1:
            return values[0]
        return "".join(str(value) for value in values)


@lru_cache(maxsize=100_000)
def parse(text: str) -> Template:
    """Return the template that a text is."""
    try:
        tree = Environment(autoescape=False).parse(text)  # noqa: S701 - no HTML here
        names = frozenset(meta.find_undeclared_variables(tree))
    except (TemplateSyntaxError, RecursionError):
        return Template(frozenset(), None)
    return Template(names, _pieces(tree))


def _pieces(tree: nodes.Template) -> tuple[str | nodes.Expr, ...] | None:
    pieces: list[str | nodes.Expr] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                pieces.append(node.data)
            elif _is_simple(node):
                pieces.append(node)
            else:
                return None
    return tuple(pieces) or None


def _is_simple(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Name):
        return True
    if isinstance(node, nodes.Const):
        return type(node.value) in _PLAIN
    if isinstance(node, nodes.BinExpr) and type(node) in _OPERATORS:
        return _is_simple(node.left) and _is_simple(node.right)
    return False


def _value(node: nodes.Expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, nodes.Const):
        return node.value
    if isinstance(node, nodes.Name):
        value = variables[node.name]
        if not isinstance(value, _PLAIN) or isinstance(value, bool):
            raise LookupError(node.name)  # noqa: TRY004 - Ansible decides
        return int(value) if isinstance(value, int) else str(value)
    assert isinstance(node, nodes.BinExpr)  # noqa: S101 - _is_simple let nothing else through
    left, right = _value(node.left, variables), _value(node.right, variables)
    if not (isinstance(left, int) and isinstance(right, int)):
        raise LookupError("not numbers")  # noqa: TRY004 - Ansible decides
    try:
        return _OPERATORS[type(node)](left, right)
    except ArithmeticError:
        raise LookupError("division by zero is left to Ansible") from None
