"""A certificate from its file, which may be anybody's."""

from pathlib import Path
from typing import Any

from rdmaprov.boundary import OddAnswer, parse_file
from rdmaprov.errors import UsageError
from rdmaprov.runs.files import read_whole

MOST_BYTES = 1 << 26  # 4,096 nodes with 16 KB each
_MOST_PARTS = 1 << 21
_MOST_SIGNATURE = 1 << 16
_HINT = "Name the certificate.json in the run directory of an acceptance: runs/*-accept"


def read_certificate(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a certificate, and its JSON, whose shape nobody has checked yet.

    Raises:
        UsageError: it cannot be read, or is no in-toto statement.
    """
    data = _read(path, MOST_BYTES)
    try:
        found = parse_file(data, _MOST_PARTS, unique=True)
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
    try:
        return read_whole(path, most)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", _HINT) from error
