"""The items of a run: which tests are checks, for which nodes and rails, and in which order.

Tests whose arguments are nodes and hosts alone are checks. Tests with fixtures or marks of another
kind stay pytest's own functions.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.mark.structures import get_unpacked_marks

from rdmaprov.validate.check import Check, CheckFunction
from rdmaprov.validate.selection import CheckTarget, Selection

ARGUMENTS = frozenset({"host", "node", "rail", "fleet", "hosts"})
_OF_NODE = frozenset({"host", "node", "rail"})
# The mark of tests whose commands are all run anew.
LIVE = "path"
# What these do is in pytest's set-up and call.
_PYTEST_MARKS = frozenset({"skip", "skipif", "xfail", "parametrize", "usefixtures"})


def make_checks(
    collector: pytest.Module, name: str, function: Callable[..., object], selection: Selection
) -> list[Check] | None:
    """Return the checks that a test function is, None if it must be pytest's own."""
    marks = list(get_unpacked_marks(function))
    if any(mark.name in _PYTEST_MARKS for mark in marks):
        return None
    # As pytest itself asks for a function's definition; its annotation says Item.
    manager: Any = collector.session._fixturemanager
    fixtures = manager.getfixtureinfo(collector, function, None)
    asked = frozenset(fixtures.argnames)
    if not asked <= ARGUMENTS or not set(fixtures.names_closure) <= asked | _BEHIND:
        return None
    made = CheckFunction(
        call=function,
        arguments=asked,
        selection=selection,
        marks=tuple(marks),
        live=any(mark.name == LIVE for mark in [*marks, *collector.iter_markers()]),
        file=collector.session._node_location_to_relpath(collector.path),
        line=function.__code__.co_firstlineno - 1,
        hook=collector.ihook,
    )
    if not asked & _OF_NODE:
        return [Check.from_parent(collector, name=name, function=made, target=None)]
    node_id = _node_ids(collector, name)
    return [
        Check.from_parent(
            collector,
            name=f"{name}[{target.id}]",
            nodeid=node_id(target.id),
            function=made,
            target=target,
        )
        for target in targets(asked, selection)
    ]


def _node_ids(collector: pytest.Module, name: str) -> Callable[[str], Any]:
    """Return a function that makes the id of a check from what is in its brackets.

    In a name that pytest joins itself, it does not tell what is in the brackets from the rest, and
    --lf then finds no such test again.
    """
    parent: Any = getattr(collector, "id", None)  # from pytest 9.1 on
    if hasattr(parent, "with_params"):
        with_params: Callable[[str], Any] = parent.child(name).with_params
        return with_params
    return lambda brackets: f"{collector.nodeid}::{name}[{brackets}]"


# The fixtures that those of ARGUMENTS are made from, and pytest's own.
_BEHIND = ARGUMENTS | {"_target", "_selection", "request"}


def targets(asked: frozenset[str], selection: Selection) -> tuple[CheckTarget, ...]:
    """Return what a test with these arguments is run for."""
    return selection.rails if "rail" in asked else selection.nodes


def target_of(item: pytest.Item) -> CheckTarget | None:
    """Return what an item is about, None if it is about the fleet, or not ours."""
    if isinstance(item, Check):
        return item.target
    call = getattr(item, "callspec", None)
    found = call.params.get("_target") if call is not None else None
    return found if isinstance(found, CheckTarget) else None


def node_by_node(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the items of one node after the other, each node's in their order; the fleet's last."""
    by_node: dict[str, list[pytest.Item]] = {}
    others: list[pytest.Item] = []
    for item in items:
        target = target_of(item)
        (others if target is None else by_node.setdefault(target.node.name, [])).append(item)
    for own in by_node.values():
        yield from own
    yield from others
