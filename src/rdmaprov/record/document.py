"""The file of a record: JSON, compressed or not, which is read as a stranger's."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.boundary import OddAnswer, parse_file, shown
from rdmaprov.errors import UsageError
from rdmaprov.probe.connection import Answer
from rdmaprov.record.shapes import DOCUMENT, FORMAT
from rdmaprov.record.site import unknown_variables
from rdmaprov.runs.files import read_whole

MOST_FILE_BYTES = 16 * 1024 * 1024
MOST_BYTES = 96 * 1024 * 1024
_MOST_PARTS = 1 << 20  # a node with 16 rails has some 20,000
_EDGE = 64  # bytes
_GZIP = b"\x1f\x8b"
_SHELL = ["sh", "-c"]
# What the roles' plans read; the rest is the head, the site and the suite's.
_READINGS = ("root", "user", "files", "directories", "facts", "errors", "commands")


class RecordError(UsageError):
    """A file is no record that can be used."""


@dataclass(frozen=True)
class NodeRecord:
    """All that roles and suite read of a node."""

    document: Mapping[str, Any]

    @property
    def node(self) -> str:
        """Return the node's name."""
        return str(self.document["node"])

    @property
    def variables(self) -> dict[str, Any]:
        """Return the variables that the site sets for the node."""
        return dict(self.document["variables"])

    @property
    def readings(self) -> dict[str, Any]:
        """Return what the roles' plans read, as module_utils.record has it."""
        return {part: self.document[part] for part in _READINGS}

    @property
    def answers(self) -> dict[str, Answer | str]:
        """Return what the suite's commands gave, by command, or why they gave nothing."""
        return {
            each["argv"][-1]: each.get("stderr", "")
            if each["exit_code"] is None
            else Answer(each["exit_code"], each["stdout"], each.get("stderr", ""))
            for each in self.document["checks"]
        }


def _require_readings(readings: object) -> Mapping[str, Any]:
    if isinstance(readings, dict) and readings.keys() == set(_READINGS):
        return readings
    raise OddAnswer("its answer has no readings")


def new_document(
    node: str,
    taken: str,
    variables: Mapping[str, Any],
    readings: object,
    answers: Mapping[str, Answer | str],
) -> dict[str, Any]:
    """Return a record as its file has it, with all secrets.

    Args:
        taken: the time, in ISO 8601.

    Raises:
        OddAnswer: the readings are none.
    """
    parts = _require_readings(readings)
    checks = [_entry(command, answer) for command, answer in answers.items()]
    head = {"format": FORMAT, "rdmaprov": rdmaprov.__version__, "node": node, "taken": taken}
    rest = {"anonymous": False, "variables": dict(variables), "checks": checks}
    return {**head, **rest, **parts}


def _entry(command: str, answer: Answer | str) -> dict[str, Any]:
    argv = [*_SHELL, command]
    if isinstance(answer, str):
        return {"argv": argv, "stdout": "", "stderr": answer, "exit_code": None}
    said = {"stderr": answer.err} if answer.err else {}
    return {"argv": argv, "stdout": answer.out, **said, "exit_code": answer.rc}


def to_bytes(document: Mapping[str, Any], *, compress: bool) -> bytes:
    """Return a record as its file has it."""
    data = (json.dumps(document, indent=1) + "\n").encode("ascii")
    return gzip.compress(data, mtime=0) if compress else data


def read_record(path: Path) -> NodeRecord:
    """Return the record in a file.

    Raises:
        RecordError: it cannot be read, is cut, too large, or no record.
    """
    again = "Take it again: rdmaprov record SITE --limit NODE"
    try:
        return NodeRecord(parse_record(read_whole(path, MOST_FILE_BYTES)))
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}", again) from error
    except OddAnswer as error:
        raise RecordError(f"{path}: {error}", again) from error


def parse_record(data: bytes) -> dict[str, Any]:
    """Return what a record's file has.

    Raises:
        OddAnswer: it is cut, too large, or no record.
    """
    if len(data) > MOST_FILE_BYTES:
        raise OddAnswer(f"it exceeds {MOST_FILE_BYTES >> 20} MiB")
    plain = _unpacked(data) if data.startswith(_GZIP) else data
    if not plain.isascii():
        raise OddAnswer("it is no record: it has other characters than ASCII")
    if not plain[:_EDGE].lstrip().startswith(b"{"):
        raise OddAnswer("it is no record of rdmaprov")
    if not plain[-_EDGE:].rstrip().endswith(b"}"):
        raise OddAnswer("it is cut: its end is missing")
    try:
        document: dict[str, Any] = parse_file(plain, _MOST_PARTS, DOCUMENT, unique=True)
    except OddAnswer as error:
        why = str(error).replace("its answer is", "it is").replace("its answer", "it")
        raise OddAnswer(why) from error
    if strange := unknown_variables(document["variables"]):
        raise OddAnswer(f"it has variables that no role has: {shown(', '.join(strange))}")
    return document


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(data, MOST_BYTES + 1)
    except zlib.error as error:
        raise OddAnswer("it is damaged: it cannot be decompressed") from error
    if len(plain) > MOST_BYTES:
        raise OddAnswer(f"it exceeds {MOST_BYTES >> 20} MiB when it is decompressed")
    if not unpacker.eof:
        raise OddAnswer("it is cut: its end is missing")
    if unpacker.unused_data:
        raise OddAnswer("it has something behind its end")
    return plain
