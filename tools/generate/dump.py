"""Values as the YAML of this repository: mappings in blocks, lists on one line."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes mappings in blocks, whatever is in them."""


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


_Dumper.add_representer(list, _list)


def block(value: dict[str, Any], width: int = 80) -> str:
    """Return a mapping as lines."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        default_flow_style=False,
        width=width,
        sort_keys=False,
        allow_unicode=True,
    )


def inline(value: object) -> str:
    """Return a value on one line, as it can be written behind a key."""
    return block({"x": value}, 10_000).removeprefix("x:").strip()
