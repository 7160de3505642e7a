"""What a role changed on a made-up node, and each part of it alone put back or altered.

A made-up node is files below a directory and what its programs remember. Both are compared from
before to after the role ran: a setting that a role learns to make is mutated without a word here.
"""

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.roles.fake import FakeMachine

OTHER = 12345
# Of a made-up node, what is not a state: where it is, its programs, and what the test asked.
_NO_STATE = frozenset({"root", "programs", "ran", "machine", "written"})


@dataclass(frozen=True)
class Mutation:
    """One thing that somebody changed behind the role's back, and how to have it as it was."""

    name: str
    do: Callable[[], None]
    undo: Callable[[], None]


def files(node: FakeMachine) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in Path(node.root).rglob("*"):
        name = "/" + str(path.relative_to(node.root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def plain(value: Any) -> Any:
    """Return what objects remember, as plain data."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if not callable(item)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "__dict__"):
        return plain({key: item for key, item in vars(value).items() if key not in _NO_STATE})
    return copy.deepcopy(value)


def of_files(
    node: FakeMachine, before: dict[str, bytes | str], written: set[str]
) -> Iterator[Mutation]:
    after = files(node)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield _of_file(node, f"{name} as before", name, partial(_have, old=before.get(name)))
    for name in sorted(written & after.keys()):
        yield _of_file(node, f"{name} altered", name, _append)
        yield _of_file(node, f"{name} mode", name, lambda path: path.chmod(_looser(path)))
        yield _of_file(node, f"{name} link", name, partial(_move, to=Path(node.path("moved"))))
        if os.geteuid() == 0:
            yield _of_file(node, f"{name} user", name, lambda path: os.chown(path, OTHER, -1))
            yield _of_file(node, f"{name} group", name, lambda path: os.chown(path, -1, OTHER))


def _of_file(node: FakeMachine, label: str, name: str, do: Callable[[Path], None]) -> Mutation:
    path = Path(node.path(name))
    link = str(path.readlink()) if path.is_symlink() else ""
    there = path.exists() and not link
    content, was = (path.read_bytes(), path.stat()) if there else (b"", None)

    def undo() -> None:
        path.unlink(missing_ok=True)
        if link:
            path.symlink_to(link)
        elif was is not None:
            path.write_bytes(content)
            os.chown(path, was.st_uid, was.st_gid)
            path.chmod(was.st_mode & 0o7777)
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    return Mutation(label, lambda: do(path), undo)


def _have(path: Path, old: bytes | str | None) -> None:
    if old is None or isinstance(old, str) or path.is_symlink():
        path.unlink(missing_ok=True)
    if isinstance(old, str):
        path.symlink_to(old)
    elif old is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        with path.open("r+b") as opened:  # its mode stays
            opened.write(old)
            opened.truncate()


def _move(path: Path, to: Path) -> None:
    path.rename(to)
    path.symlink_to(to)


def _append(path: Path) -> None:
    with path.open("ab") as opened:
        opened.write(b"altered = 1\n")


def _looser(path: Path) -> int:
    mode = path.stat().st_mode & 0o7777
    return mode | 0o006 if not mode & 0o006 else mode | 0o002


def of_memory(value: Any, before: Any, where: str) -> Iterator[Mutation]:
    """Yield mutations of what programs remember, from what it is to what it was before."""
    if isinstance(value, dict):
        yield from _of_mapping(value, before, where)
    elif isinstance(value, list) and len(value) == len(before):
        for index, item in enumerate(value):
            yield from _of_part(value, index, item, before[index], f"{where}[{index}]")
    elif isinstance(value, list):
        now = list(value)
        yield Mutation(where, lambda: _fill(value, before), lambda: _fill(value, now))
    elif hasattr(value, "__dict__"):
        yield from of_memory(_Attributes(value), before, where)


def _of_mapping(value: dict[Any, Any], before: dict[Any, Any], where: str) -> Iterator[Mutation]:
    for key in [*value]:
        item, label = value[key], f"{where}.{key}"
        if callable(item):
            continue
        if key in before:
            yield from _of_part(value, key, item, before[key], label)
            continue
        yield Mutation(label, partial(value.pop, key), _setter(value, key, item))
        for part in [*item] if isinstance(item, dict) else []:
            yield Mutation(
                f"{label}.{part}", _setter(item, part, "other"), _setter(item, part, item[part])
            )
    for key in before.keys() - value.keys():
        yield Mutation(
            f"{where}.{key} is back", _setter(value, key, before[key]), partial(value.pop, key)
        )


def _of_part(holder: Any, key: Any, item: Any, before: Any, label: str) -> Iterator[Mutation]:
    if isinstance(item, (dict, list)) or hasattr(item, "__dict__"):
        yield from of_memory(item, before, label)
    elif item != before:
        yield Mutation(label, _setter(holder, key, before), _setter(holder, key, item))


def _setter(holder: Any, key: Any, value: Any) -> Callable[[], None]:
    return lambda: holder.__setitem__(key, value)


def _fill(value: list[Any], items: list[Any]) -> None:
    value[:] = copy.deepcopy(items)


class _Attributes(dict[str, Any]):
    """An object's state as a dictionary that writes through."""

    def __init__(self, of: Any) -> None:
        self._of = of
        super().__init__({k: v for k, v in vars(of).items() if k not in _NO_STATE})

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        setattr(self._of, key, value)

    def pop(self, key: str, *_default: Any) -> Any:
        if key in vars(self._of):
            delattr(self._of, key)
        return super().pop(key)
