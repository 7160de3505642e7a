"""Templates that are simple enough to render without Ansible, and what a template depends on.

Ansible takes up to two milliseconds to render a template over eight rails. A site whose rails
have addresses like `10.{{ rack }}.0.{{ unit }}/24` has eight of them for each node, each with
another result, so that none can be remembered. Expressions made of names, constants, arithmetic
and a few of Jinja's own filters mean the same in Jinja and in Ansible: they are compiled once and
rendered by Jinja itself, which takes microseconds. Tests hold the results against Ansible's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from jinja2 import (
    Environment,
    StrictUndefined,
    TemplateAssertionError,
    TemplateError,
    Undefined,
    meta,
    nodes,
)

# Names that reach other variables than those a template names, or something that changes.
DYNAMIC = frozenset({"hostvars", "vars", "lookup", "query", "q", "now", "groups"})

Expression = Callable[[dict[str, Any]], Any]


class _ChainedUndefined(StrictUndefined):
    """As undefined as Ansible has it: a part of it is undefined, and so has a default."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Any:
        return iter(())


_ENVIRONMENT = Environment(autoescape=False, undefined=StrictUndefined)  # noqa: S701 - no HTML
_OWN = _ENVIRONMENT.overlay(undefined=_ChainedUndefined)
_NODES = (
    nodes.Name, nodes.Const, nodes.List, nodes.Dict, nodes.Pair, nodes.Compare, nodes.Operand,
    nodes.CondExpr, nodes.Getattr, nodes.Add, nodes.Sub, nodes.Mul, nodes.FloorDiv, nodes.Mod,
    nodes.Neg, nodes.And, nodes.Or, nodes.Not,
)  # fmt: skip
_FILTERS = frozenset({"default", "first", "int", "length"})
_PLAIN = (str, int, float, list, dict)


@dataclass(frozen=True)
class Template:
    """A parsed template."""

    names: frozenset[str]  # the variables it mentions; all of DYNAMIC if it cannot be parsed
    # its texts and expressions if it is simple, else None
    pieces: tuple[str | Expression, ...] | None

    @property
    def dynamic(self) -> bool:
        """Whether what it mentions does not say all that it depends on."""
        return bool(self.names & DYNAMIC)

    def render(self, variables: dict[str, Any]) -> Any:
        """Return what a simple template gives; raise LookupError when Ansible must decide."""
        if self.pieces is None:
            raise LookupError
        try:
            values = [p if isinstance(p, str) else p(variables) for p in self.pieces]
        except (TemplateError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
            raise LookupError("it fails, which Ansible puts into words") from error
        if len(values) == 1:
            return _require_defined(values[0])
        if any(isinstance(v, bool) or not isinstance(v, (str, int)) for v in values):
            raise LookupError("only texts and whole numbers are joined here")
        return "".join(str(value) for value in values)


def _require_defined(value: Any) -> Any:
    """Return a value that has no undefined part; raise LookupError for others."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not isinstance(value, _PLAIN) or any(isinstance(part, Undefined) for part in parts):
        raise LookupError("undefined, which Ansible puts into words")
    return str(value) if isinstance(value, str) else value


@lru_cache(maxsize=100_000)
def parse(text: str) -> Template:
    """Return the template that a text is."""
    try:
        tree = _ENVIRONMENT.parse(text)
        return Template(_names(tree), _pieces(tree))
    except (TemplateError, RecursionError):
        return Template(DYNAMIC, None)  # it may look at anything


def evaluate(text: str, variables: dict[str, Any]) -> Any:
    """Return what a template of one expression gives, by Jinja alone: any of its filters.

    Only for templates of rdmaprov's own, such as a role's defaults.

    Raises:
        LookupError: a part of it is undefined.
        ValueError: it is more than an expression.
    """
    return _require_defined(_compiled(text)(variables))


@lru_cache(maxsize=1_000)
def _compiled(text: str) -> Expression:
    body = _ENVIRONMENT.parse(text.strip()).body
    output = body[0] if len(body) == 1 else None
    if not isinstance(output, nodes.Output) or len(output.nodes) != 1:
        raise ValueError("it is more than an expression")
    return _compile(output.nodes[0], _OWN)


def _names(tree: nodes.Template) -> frozenset[str]:
    try:
        return frozenset(meta.find_undeclared_variables(tree))
    except TemplateAssertionError:
        # Ansible's own filters and tests, which Jinja does not know. A loop's variable may be
        # among these names; it is no harm to have its namesake's value.
        return frozenset(node.name for node in tree.find_all(nodes.Name) if node.ctx == "load")


def _pieces(tree: nodes.Template) -> tuple[str | Expression, ...] | None:
    pieces: list[str | Expression] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                pieces.append(node.data)
            elif isinstance(node, nodes.Name):
                pieces.append(itemgetter(node.name))  # a KeyError is a LookupError
            elif _is_simple(node):
                pieces.append(_compile(node))
            else:
                return None
    return tuple(pieces) or None


def _is_simple(node: nodes.Node) -> bool:
    known = isinstance(node, _NODES) or (isinstance(node, nodes.Filter) and node.name in _FILTERS)
    return known and all(_is_simple(child) for child in node.iter_child_nodes())


def _compile(node: nodes.Expr, environment: Environment = _ENVIRONMENT) -> Expression:
    """Return the expression as a function of its names, as Environment.compile_expression does."""
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), node, lineno=1)]
    template = environment.from_string(nodes.Template(body, lineno=1))

    def evaluate(variables: dict[str, Any]) -> Any:
        # Shared: the variables are looked at where they are, without Jinja's global functions,
        # which no simple expression calls.
        context = template.new_context(variables, shared=True)
        for _ in template.root_render_func(context):
            pass
        return context.vars["result"]

    return evaluate
