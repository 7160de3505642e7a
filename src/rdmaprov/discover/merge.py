"""Write host variables to host_vars files; keep comments and order."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rdmaprov.runs.files import write_whole


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.explicit_start = True
    return yaml


def format_yaml(variables: Mapping[str, Any]) -> str:
    """Return variables as YAML."""
    stream = StringIO()
    _yaml().dump(dict(variables), stream)
    return stream.getvalue()


def merge_host_vars(site: Path, host: str, variables: Mapping[str, Any]) -> Path | None:
    """Merge variables into a host's file; return its path, or None if it did not change.

    Raises:
        OSError: the file cannot be written; it is as it was.
    """
    path = next(
        (found for suffix in ("yml", "yaml") if (found := _file(site, host, suffix)).is_file()),
        _file(site, host, "yml"),
    )
    before = path.read_text() if path.is_file() else ""
    yaml = _yaml()
    content = yaml.load(before) or {}
    for name, value in variables.items():
        if content.get(name) != value:
            content[name] = value
    stream = StringIO()
    yaml.dump(content, stream)
    if not variables or stream.getvalue() == before:
        return None
    path.parent.mkdir(exist_ok=True)
    _replace(path.resolve(), stream.getvalue())
    return path


def _replace(path: Path, text: str) -> None:
    """Write a file of the site completely or not at all; it keeps its owner and permissions."""
    before = path.stat() if path.is_file() else None
    write_whole(path, text, mode=0o666)
    if before is not None:
        path.chmod(stat.S_IMODE(before.st_mode))
        with contextlib.suppress(PermissionError):  # only root may give a file away
            os.chown(path, before.st_uid, before.st_gid)


def _file(site: Path, host: str, suffix: str) -> Path:
    return site / "host_vars" / f"{host}.{suffix}"
