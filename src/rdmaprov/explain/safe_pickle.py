"""Pickles of plain data, from anybody: no code runs, and size, memory and depth are limited.

A pickle is a program. Before it runs, its operations are listed: only those that torch's pickler
writes for texts, numbers, lists, tuples and mappings are allowed, and none may number its memory
beyond what it has put there, as each number takes memory. Then it is read by an Unpickler that
finds no class. Last, what was read is counted, as a list may stand in itself a thousand times.
"""

import io
import pickle
import pickletools
from collections.abc import Iterator

_MOST_OPERATIONS = 2_000_000
_MOST_PARTS = 2_000_000
_MOST_DEPTH = 12
_ALLOWED = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING"),
    *("EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"),
}


class UnsafePickleError(ValueError):
    """A pickle that is no plain data, or too large; the message says why, on one line."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        raise UnsafePickleError(f"it asks for {module[:40]}.{name[:40]}")

    def persistent_load(self, _id: object) -> object:
        raise UnsafePickleError("it asks for something outside of it")


def load_plain(data: bytes) -> object:
    """Return the plain data of a pickle; the caller limits its bytes.

    Raises:
        UnsafePickleError: it is anything else, cut off, too large or too deep.
    """
    _check_operations(data)
    try:
        found = _PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except UnsafePickleError:
        raise
    except Exception as error:  # a pickle that is no program can raise anything
        raise UnsafePickleError("it is damaged") from error
    check_size(found)
    return found


def check_size(found: object) -> None:
    """Raise UnsafePickleError for data that are too many or too deep, or stand in themselves."""
    open_parts = [(found, 0)]
    parts = 0
    while open_parts:
        part, depth = open_parts.pop()
        if isinstance(part, dict):
            part = [*part, *part.values()]
        inner = part if isinstance(part, list | tuple) else ()
        parts += 1
        if parts + len(inner) > _MOST_PARTS or depth > _MOST_DEPTH:
            raise UnsafePickleError("it is too large or too deep")
        open_parts.extend(
            (each, depth + 1) for each in inner if isinstance(each, dict | list | tuple)
        )
        parts += len(inner)


def _check_operations(data: bytes) -> None:
    """Raise an error for an operation that plain data do not need."""
    puts = 0
    for number, (name, argument) in enumerate(_operations(data)):
        if name not in _ALLOWED:
            raise UnsafePickleError(f"it has the operation {name}")
        if name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            puts += 1
            if isinstance(argument, int) and argument > puts + 1:
                raise UnsafePickleError("it numbers its memory in an odd order")
        if number > _MOST_OPERATIONS:
            raise UnsafePickleError("it has too many operations")


def _operations(data: bytes) -> Iterator[tuple[str, object]]:
    try:
        for operation, argument, _ in pickletools.genops(data):
            yield operation.name, argument
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise UnsafePickleError("it is damaged or cut off") from error
