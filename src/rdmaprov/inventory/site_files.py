"""A site's files: which ones Ansible reads, and whether their text can be read at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from rdmaprov.inventory.depth import MOST, too_deep
from rdmaprov.problem import Position, Problem

YAML_SUFFIXES = (".yml", ".yaml", ".json")
# 10,000 nodes with eight rails written out are 5 MB.
MOST_BYTES = 8 * 1024 * 1024
IGNORED = re.compile(r"(^\.|~$|\.(orig|bak|cfg|retry|pyc|pyo|ini~|swp|md|txt|rst)$)")
VARIABLE_DIRECTORIES = ("group_vars", "host_vars")


def variable_files(site: Path) -> Iterator[Path]:
    """Yield the files of group_vars and host_vars that Ansible reads."""
    for name in VARIABLE_DIRECTORIES:
        for path in sorted((site / name).rglob("*")):
            if path.is_file() and not IGNORED.search(path.name):
                yield path


def inventory_files(site: Path) -> Iterator[Path]:
    """Yield the files that say which hosts there are."""
    for path in sorted(site.rglob("*")):
        parts = path.relative_to(site).parts
        hidden = any(IGNORED.search(part) for part in parts)
        if not hidden and parts[0] not in VARIABLE_DIRECTORIES and path.is_file():
            yield path


def site_digest(site: Path) -> str:
    """Return the SHA-256 of the files of a site that Ansible reads; vaulted values as they are."""
    whole = hashlib.sha256()
    for path in sorted({*inventory_files(site), *variable_files(site)}):
        own = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{own} {path.relative_to(site)}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def text_problems(path: Path) -> Iterator[Problem]:
    """Yield what is wrong with a file's text: its size, encoding or depth."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        yield file_problem(
            path,
            1,
            f"the file has {size} bytes, and the limit is {MOST_BYTES}",
            "write each host's variables into host_vars/HOST.yml",
        )
        return
    data = path.read_bytes()
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        yield file_problem(path, line, "the file is binary, or not UTF-8", "write it as UTF-8 text")
        return
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        yield file_problem(path, line, message, "save the file as UTF-8", column=column)
        return
    if (deep := too_deep(text)) is not None:
        message = f"the file nests more than {MOST} levels deep"
        yield file_problem(path, deep, message, "reduce the nesting", rule="yaml")


def file_problem(
    path: Path, line: int, message: str, remedy: str, *, column: int = 1, rule: str = "file"
) -> Problem:
    """Return a problem of a file, whatever its variables."""
    return Problem(Position(str(path), line, column), path.name, message, remedy, rule)
