"""A certificate from its file, which may be anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rdmaprov.boundary import RIGHT, OddAnswer, parse_answer
from rdmaprov.errors import UsageError

MOST_BYTES = 1 << 28  # 16,384 nodes with 16 KB each, twice
_MOST_SIGNATURE = 1 << 16
_HINT = "Name the certificate.json in the run directory of an acceptance: runs/*-accept"


def read_certificate(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a certificate, and its JSON, whose shape nobody has checked yet.

    Raises:
        UsageError: it cannot be read, or is no in-toto statement.

    """
    data = _read(path, MOST_BYTES)
    try:
        found = parse_answer(data.decode(), lambda _value: RIGHT, MOST_BYTES, unique=True)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: no certificate, or a damaged one", _HINT) from error
    except OddAnswer as error:
        why = str(error).removeprefix("its answer ")
        raise UsageError(f"{path}: it {why}: truncated, or no certificate", _HINT) from error
    if not isinstance(found, dict) or not {"_type", "predicate"} & found.keys():
        raise UsageError(f"{path}: it is no in-toto statement", _HINT)
    return data, found


def read_signature(path: Path) -> bytes | None:
    """Return the operator's signature beside a certificate, None if there is none.

    Raises:
        UsageError: it cannot be read.

    """
    beside = path.with_name(f"{path.name}.sig")
    return _read(beside, _MOST_SIGNATURE) if beside.exists() else None


def _read(path: Path, most: int) -> bytes:
    if not path.is_file():  # a pipe would be waited for
        raise UsageError(f"{path}: it is no file", _HINT)
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", _HINT) from error
    if len(data) > most:
        raise UsageError(f"{path}: it exceeds {most} bytes", _HINT)
    return data
