"""A site's files, checked before Ansible reads them: UTF-8, not too large, valid YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rdmaprov.inventory.ansible_api import (
    AnsibleError,
    AnsibleVaultError,
    Inventory,
    error_position,
    error_text,
)
from rdmaprov.inventory.resolve import VAULT_REMEDY
from rdmaprov.inventory.site_files import (
    MOST_BYTES,
    YAML_SUFFIXES,
    file_problem,
    inventory_files,
    text_problems,
    variable_files,
)
from rdmaprov.problem import Position, Problem

MOST_HOSTS = 100_000
_MOST_DIGITS = 12
_RANGE = re.compile(rb"\[(\d*):(\d+)")


def problems(site: Path, inventory: Inventory) -> Iterator[Problem]:
    """Yield the problems of the files themselves, whatever their variables."""
    for path in inventory_files(site):
        yield from _range_problems(path)
        if path.suffix in YAML_SUFFIXES:
            yield from _problems(path, inventory, empty_is_wrong=True)
        else:
            yield from text_problems(path)
    for path in variable_files(site):
        if path.suffix and path.suffix not in YAML_SUFFIXES:
            yield file_problem(
                path, 1, "Ansible does not read this file", f"rename it to {path.stem}.yml"
            )
        else:
            yield from _problems(path, inventory, empty_is_wrong=False)


def _range_problems(path: Path) -> Iterator[Problem]:
    """Yield the host ranges that are too large, before Ansible creates each of their hosts."""
    if path.stat().st_size > MOST_BYTES:
        return
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        for first, last in _RANGE.findall(line):
            if len(last) > _MOST_DIGITS or int(last) - int(first or b"0") > MOST_HOSTS:
                message = f"the range {first.decode()}:{last.decode()} has too many hosts"
                yield file_problem(path, number, message, f"write at most {MOST_HOSTS} hosts")


def _problems(path: Path, inventory: Inventory, *, empty_is_wrong: bool) -> Iterator[Problem]:
    unreadable = list(text_problems(path))
    yield from unreadable
    if unreadable:
        return
    try:
        content = inventory.read_file(path)
    except AnsibleVaultError:
        yield file_problem(
            path,
            1,
            "the file is encrypted, and no vault password decrypts it",
            VAULT_REMEDY,
            rule="vault",
        )
    except (AnsibleError, RecursionError, ValueError) as error:
        yield _syntax_problem(path, error)
    else:
        yield from _shape_problems(path, content, empty_is_wrong=empty_is_wrong)


def _shape_problems(path: Path, content: object, *, empty_is_wrong: bool) -> Iterator[Problem]:
    if not content and empty_is_wrong:
        yield file_problem(
            path, 1, "the file is empty", "write the groups and their hosts, or remove the file"
        )
    elif content and not isinstance(content, dict):
        yield file_problem(
            path, 1, "the file is not a dictionary", "write lines like `name: value`"
        )


def _syntax_problem(path: Path, error: BaseException) -> Problem:
    at = error_position(error) or Position(str(path))
    text = error_text(error).removeprefix("YAML parsing failed: ") or "it nests too deeply"
    tab = "Tab" in text or "'\\t'" in text
    if tab:
        return Problem(at, path.name, "YAML does not allow a tab here", "write spaces", "yaml")
    if "python/" in text or "could not determine a constructor" in text:
        message = f"this YAML tag is not allowed: {text}"
        return Problem(at, path.name, message, "write a plain value", "yaml")
    return Problem(at, path.name, f"the file is not valid YAML: {text}", "correct the line", "yaml")
