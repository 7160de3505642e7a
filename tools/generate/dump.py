"""Values as the YAML of this repository: mappings in blocks, lists on one line if they fit."""

from __future__ import annotations

from typing import Any

import yaml

_LONGEST = 80  # characters of a list on the line of its name


class _Dumper(yaml.SafeDumper):
    """Writes mappings in blocks, whatever is in them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent the items of a list below its name."""
        super().increase_indent(flow, False)


class _LineDumper(_Dumper):
    """Writes every list on one line."""


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    fits = isinstance(dumper, _LineDumper) or len(", ".join(map(str, value))) <= _LONGEST
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=fits)


_Dumper.add_representer(list, _list)


def block(value: dict[str, Any], width: int, dumper: type[yaml.SafeDumper] = _Dumper) -> str:
    """Return a mapping as lines."""
    return yaml.dump(
        value,
        Dumper=dumper,
        default_flow_style=False,
        width=width,
        sort_keys=False,
        allow_unicode=True,
    )


def inline(value: object) -> str:
    """Return a value on one line, as it can be written behind a key."""
    return block({"x": value}, 10_000, _LineDumper).removeprefix("x:").strip()
