"""Cases that are data, such as what programs print: in the YAML file beside a test's module."""

import functools
from pathlib import Path
from typing import Any

import yaml


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # type: ignore[no-any-return]  # noqa: S506


def cases(module: str, name: str) -> Any:
    """Return the cases of this name that stand beside a module, whose __file__ is given."""
    return _read(Path(module).with_suffix(".yml"))[name]
