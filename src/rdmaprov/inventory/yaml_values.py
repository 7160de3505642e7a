"""YAML read without Ansible: plain values, each with its place, from events and within a budget.

Values are built from libyaml's events, not from its composer, which calls itself for each level and
keeps two marks for each value. An alias costs as many values as it stands for: a few lines cannot
make billions. The types are those of YAML 1.1, as Ansible reads them; no tag makes anything else.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from rdmaprov.inventory.depth import MOST as MOST_DEPTH
from rdmaprov.inventory.tags import place
from rdmaprov.inventory.yaml_scalars import (
    MERGE,
    PREFIX,
    TEXT,
    Budget,
    Judge,
    YamlError,
    scalar,
)
from rdmaprov.problem import Position

_COLLECTIONS = frozenset({None, "!", f"{PREFIX}map", f"{PREFIX}seq"})
_PLACED = (str, int, float, date, list, dict)
_NO_KEY = object()


@dataclass
class _Open:
    """A list or dictionary whose end has not been read."""

    value: Any
    at: Position
    anchor: str | None
    key: Any = _NO_KEY
    key_at: Position | None = None
    merges: list[dict[Any, Any]] | None = None
    own: set[Hashable] = field(default_factory=set)
    size: int = 1


class YamlReader:
    """Reads one text.

    Args:
        file: its name, for positions.
        text: the YAML.
        judge: is asked about texts, and told what is wrong.
        budget: for values.
        trusted: whether its texts may be templates.

    """

    def __init__(
        self, file: str, text: str, judge: Judge, budget: Budget, *, trusted: bool = False
    ) -> None:
        self._file = file
        self._loader = yaml.CSafeLoader(text)
        self._resolver: Any = self._loader  # types-PyYAML has none for resolve
        self._judge = judge
        self._budget = budget
        self._trusted = trusted
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._root: Any = None
        self._documents = 0

    def read(self) -> Any:
        """Return the text's one value; None if it is empty.

        Raises:
            YamlError: it is not YAML, or exceeds a limit.

        """
        try:
            while (event := self._loader.get_event()) is not None:
                self._take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            text = " ".join(str(error.problem or error.context).split())
            raise YamlError(
                line, column, f"the file is not valid YAML: {text}", "correct the line"
            ) from error
        except yaml.YAMLError as error:
            text = " ".join(str(error).split())
            message = f"the file is not valid YAML: {text}"
            raise YamlError(1, 1, message, "correct the file") from error
        finally:
            self._loader.dispose()
        return self._root

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            at = self._position(event)
            self._budget.take(1, at.line, at.column)
            value = self._scalar(event, at)
            self._keep_anchor(event.anchor, value, 1)
            self._add(value, 1, at)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._begin(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                at = self._position(event)
                message = "the file has more than one document"
                raise YamlError(at.line, at.column, message, "remove the lines that are ---")

    def _position(self, event: yaml.Event) -> Position:
        mark: Any = event.start_mark
        return Position(self._file, mark.line + 1, mark.column + 1)

    def _names(self) -> list[str]:
        return [str(each.key) for each in self._open if each.key is not _NO_KEY]

    def _refuse(self, at: Position, message: str, remedy: str) -> None:
        self._judge.refuse(at, self._names(), message, remedy)

    def _scalar(self, event: yaml.ScalarEvent, at: Position) -> Any:
        tag, text = event.tag, event.value
        if tag in {None, "!"}:
            tag = self._resolver.resolve(yaml.ScalarNode, text, event.implicit)
        if tag == MERGE:
            return MERGE if self._is_key() else text
        if tag in {TEXT, "!unsafe"}:
            if wrong := self._judge.wrong_text(text, literal=tag != TEXT):
                self._refuse(at, *wrong)
            value: Any = text
        else:
            value = scalar(tag, text, lambda *wrong: self._refuse(at, *wrong))
        return value if self._is_key() else self._placed(value, at)

    def _is_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._has_no_key()

    def _has_no_key(self) -> bool:
        return self._open[-1].key is _NO_KEY

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        at = self._position(event)
        self._budget.take(1, at.line, at.column)
        if len(self._open) >= MOST_DEPTH:
            message = f"the file nests more than {MOST_DEPTH} levels deep"
            raise YamlError(at.line, at.column, message, "reduce the nesting")
        if event.tag not in _COLLECTIONS:
            self._refuse(at, f"the YAML tag {event.tag} is not allowed", "write a plain value")
        if self._is_key():
            message = "a list or dictionary is no key"
            raise YamlError(at.line, at.column, message, "write a name before the colon")
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, at, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if done.merges:
            merged: dict[Any, Any] = {}
            for each in reversed(done.merges):
                merged |= each
            done.value = merged | done.value
        value = place(done.value, done.at)
        self._keep_anchor(done.anchor, value, done.size)
        self._add(value, done.size, done.at)

    def _keep_anchor(self, anchor: str | None, value: Any, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)

    def _alias(self, event: yaml.AliasEvent) -> None:
        at = self._position(event)
        if any(each.anchor == event.anchor for each in self._open):
            message = f"*{event.anchor} contains itself"
            raise YamlError(at.line, at.column, message, "write the value in its place")
        if event.anchor not in self._anchors:
            message = f"there is no &{event.anchor} above"
            raise YamlError(at.line, at.column, message, "write the value in its place")
        value, size = self._anchors[event.anchor]
        self._budget.take(size, at.line, at.column)
        if self._is_key() and isinstance(value, (list, dict)):
            message = "a list or dictionary is no key"
            raise YamlError(at.line, at.column, message, "write a name before the colon")
        self._add(value, size, at)

    def _add(self, value: Any, size: int, at: Position) -> None:
        """Put a value into the list or dictionary that is open."""
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        parent.size += size
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is _NO_KEY:
            self._begin_entry(parent, value, at)
        else:
            key, parent.key = parent.key, _NO_KEY
            if key is MERGE:
                parent.merges = self._merge(value, at)
            else:
                parent.value[self._placed_key(key, value, parent.key_at)] = value

    def _begin_entry(self, parent: _Open, key: Any, at: Position) -> None:
        if key in parent.own:
            self._judge.refuse(
                at, [str(key)], "is written twice, and the last one wins", "remove one of them"
            )
            parent.value.pop(key, None)  # the last one's key stays, with its place
        parent.own.add(key)
        parent.key, parent.key_at = key, at

    def _merge(self, value: Any, at: Position) -> list[dict[Any, Any]]:
        parts = value if isinstance(value, list) else [value]
        if all(isinstance(part, dict) for part in parts):
            return parts
        self._refuse(at, "<< takes a dictionary, or a list of them", "write an alias")
        return []

    def _placed(self, value: Any, at: Position) -> Any:
        if not isinstance(value, _PLACED) or isinstance(value, bool):
            return value
        return place(value, at, trusted=self._trusted)

    def _placed_key(self, key: Any, value: Any, at: Position | None) -> Any:
        """Return a key, with its place if its value has none or is a host's or a group's."""
        if isinstance(value, _PLACED) and not isinstance(value, (bool, list, dict)):
            return key
        is_plain = isinstance(key, (str, int, float)) and not isinstance(key, bool)
        return place(key, at) if at and is_plain else key


def read_own(path: Path) -> Any:
    """Return the content of one of rdmaprov's own YAML files, with the place of every value."""
    return YamlReader(str(path), path.read_text(), Judge(), Budget(10**6), trusted=True).read()
