"""The file of a record: JSON, compressed or not, which is read as a stranger's."""

import gzip
import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.boundary import (
    MOST_NUMBER,
    RIGHT,
    WRONG,
    Check,
    OddAnswer,
    boolean,
    fields,
    integer,
    list_of,
    mapping_to,
    parse_file,
    shown,
    text,
)
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node
from rdmaprov.inventory.schema import load_shipped
from rdmaprov.probe.connection import Answer
from rdmaprov.runs.files import read_whole

GROUP = "recorded"
FORMAT = "rdmaprov record 1"
_TEMPLATE = ("{{", "{%", "{#")
_MOST_DEPTH = 12
_MOST_TEXT = 9 * 1024 * 1024  # as a connection has of one answer
_MOST_ENTRIES = 262_144
# By kind, the types of what follows it; see module_utils.record.
_ERRORS: dict[str, list[type]] = {
    "OSError": [int, str],
    "CommandFailed": [int, str, str],
    "NodeError": [str],
    "NotYet": [str],
    "Refused": [str],
}
MOST_FILE_BYTES = 16 * 1024 * 1024
MOST_BYTES = 96 * 1024 * 1024
_MOST_PARTS = 1 << 20  # a node with 16 rails has some 20,000
_EDGE = 64  # bytes
_GZIP = b"\x1f\x8b"
_SHELL = ["sh", "-c"]
# What the roles' plans read; the rest is the head, the site and the suite's.
_READINGS = ("root", "user", "files", "directories", "facts", "errors", "commands")


def variables_of(node: Node) -> dict[str, Any]:
    """Return the variables of roles that the site sets for a node, with their values."""
    chosen = {name: node.values[name] for name in sorted(node.written & node.values.keys())}
    plain: dict[str, Any] = json.loads(json.dumps(chosen))
    return plain


@contextmanager
def written_site(node: str, variables: Mapping[str, Any]) -> Iterator[Path]:
    """Provide a site of one node with these variables; remove it at the end.

    Args:
        node: its name, for which a file of that name would not be safe to make.
    """
    with tempfile.TemporaryDirectory(prefix="rdmaprov-record-") as directory:
        site = Path(directory, "site")
        site.mkdir()
        hosts = {GROUP: {"hosts": {node: dict(variables)}}}
        # JSON is YAML, and needs no quotes of ours.
        (site / "hosts.yml").write_text(f"---\n{json.dumps(hosts, indent=1)}\n", encoding="ascii")
        yield site


def _any_text(most: int = _MOST_TEXT) -> Check:
    """Check a text of a node's, which may have any characters: it is only compared and parsed."""
    return lambda value: RIGHT if isinstance(value, str) and len(value) <= most else WRONG


def _plain(value: object, depth: int = 0) -> str | None:
    """Check a value of JSON's types, and how deep it is."""
    if depth > _MOST_DEPTH:
        return WRONG
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        is_whole = isinstance(value, int) and abs(value) <= MOST_NUMBER
        return RIGHT if is_whole or value is None or isinstance(value, (str, float)) else WRONG
    return RIGHT if all(_plain(each, depth + 1) is RIGHT for each in inner) else WRONG


def _without_templates(value: object) -> str | None:
    """Check a variable: a site with it is read by Ansible, which renders templates."""
    if _plain(value) is not RIGHT or any(mark in json.dumps(value) for mark in _TEMPLATE):
        return WRONG
    return RIGHT


def _optional(check: Check) -> Check:
    return lambda value: RIGHT if value is None else check(value)


def _error(value: object) -> str | None:
    if not isinstance(value, list) or not 2 <= len(value) <= 4:
        return WRONG
    kind, *rest = value
    wanted = _ERRORS.get(kind) if isinstance(kind, str) else None
    return RIGHT if [type(each) for each in rest] == wanted else WRONG


_COMMAND = fields(
    {
        "argv": list_of(_any_text(), least=1),
        "stdin": _any_text(),
        "stdout": _any_text(),
        "stderr": _any_text(),
        "exit_code": _optional(integer(least=-255, most=255)),
    },
    optional=("stdin", "stderr"),
)
_KEY = _any_text(1 << 20)
DOCUMENT = fields(
    {
        "format": text(pattern=FORMAT),
        "rdmaprov": text(pattern=r"[\w.+-]{1,40}"),
        "node": text(pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}"),
        "taken": text(pattern=r"[0-9T:.+Z-]{10,40}"),
        "anonymous": boolean,
        "variables": mapping_to(_without_templates, text(pattern=r"[a-z][a-z0-9_]{0,127}")),
        "root": text(pattern=r"/[^\n]*"),
        "user": list_of(integer(), most=2, least=2),
        "files": mapping_to(_optional(_any_text()), _KEY, _MOST_ENTRIES),
        "directories": mapping_to(list_of(_any_text()), _KEY, _MOST_ENTRIES),
        "facts": mapping_to(_plain, _KEY, _MOST_ENTRIES),
        "errors": mapping_to(_error, _KEY, _MOST_ENTRIES),
        "commands": list_of(_COMMAND),
        "checks": list_of(_COMMAND),
    }
)


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
    """Return the record in a file; raise RecordError if it is none, or cut, or too large."""
    again = "Take it again: rdmaprov record SITE --limit NODE"
    try:
        return NodeRecord(parse_record(read_whole(path, MOST_FILE_BYTES)))
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}", again) from error
    except OddAnswer as error:
        raise RecordError(f"{path}: {error}", again) from error


def parse_record(data: bytes) -> dict[str, Any]:
    """Return what a record's file has; raise OddAnswer if it is cut, too large, or no record."""
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
    if strange := sorted(document["variables"].keys() - load_shipped().variables.keys()):
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
