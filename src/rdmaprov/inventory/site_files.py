"""A site's files: which ones Ansible reads, and whether their text can be read at all.

libyaml's composer calls itself for each level, in C: a file of 50,000 brackets ends the process.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from rdmaprov.inventory.ansible_api import (
    AnsibleError,
    AnsibleVaultError,
    Inventory,
    error_position,
    error_text,
)
from rdmaprov.problem import Position, Problem

MOST = 100
YAML_SUFFIXES = (".yml", ".yaml", ".json")
# 10,000 nodes with eight rails written out are 5 MB.
MOST_BYTES = 8 * 1024 * 1024
IGNORED = re.compile(r"(^\.|~$|\.(orig|bak|cfg|retry|pyc|pyo|ini~|swp|md|txt|rst)$)")
VARIABLE_DIRECTORIES = ("group_vars", "host_vars")
MOST_HOSTS = 100_000
_MOST_DIGITS = 12
_RANGE = re.compile(rb"\[(\d*):(\d+)")


def too_deep(text: str) -> int | None:
    """Return the line on which a text nests too deeply, None if it does not."""
    return _measure(text) if _may_be_deep(text) else None


def _may_be_deep(text: str) -> bool:
    """Return whether a text can be too deep, by a test that takes next to no time."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > MOST:
            return True
    return re.search(rf"^[ ?:-]{{{2 * MOST},}}", text, re.MULTILINE) is not None


def _measure(text: str) -> int | None:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MOST:
                return event.start_mark.line + 1 if event.start_mark else 1
    except yaml.YAMLError:
        return None
    return None


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


def vault_words(error: Exception) -> tuple[str, str]:
    """Return why something stays encrypted, and what to do."""
    if "no vault secrets found" in str(error):
        remedy = "pass --vault-password-file FILE, or set ANSIBLE_VAULT_PASSWORD_FILE"
        return "is encrypted, and no vault password is given", remedy
    return "is encrypted, and the given vault password does not decrypt it", "pass the right one"


def _problems(path: Path, inventory: Inventory, *, empty_is_wrong: bool) -> Iterator[Problem]:
    unreadable = list(text_problems(path))
    yield from unreadable
    if unreadable:
        return
    try:
        content = inventory.read_file(path)
    except AnsibleVaultError as error:
        message, remedy = vault_words(error)
        yield file_problem(path, 1, f"the file {message}", remedy, rule="vault")
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
