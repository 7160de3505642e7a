"""NCCL's log files, read line by line in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.nccl_log.tally import Tally
from rdmaprov.problem import printable
from rdmaprov.words import some

STDIN = Path("-")
_CHUNK_BYTES = 1 << 20
_LINE_BYTES = 1 << 20  # NCCL's own lines are at most 2 KiB; what is longer is cut into pieces
_HOW_TO_LOG = "Run the job with NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log"


class UnreadableLogError(RdmaprovError):
    """A file is no log of NCCL's, so nothing is known about the job."""

    exit_code = ExitCode.UNKNOWN


def read_logs(files: Iterable[Path]) -> tuple[Tally, tuple[str, ...]]:
    """Return what the files add up to, and those of them without a line of NCCL's; `-` is stdin.

    Raises:
        UsageError: a file is missing or is a directory.
        UnreadableLogError: a file is binary, or none has a line of NCCL's.
    """
    tally = Tally()
    names, silent = [], []
    for file in files:
        names.append(str(file))
        tally.troubles.begin_file(str(file))
        if not _add_file(file, tally):
            silent.append(str(file))
    if len(silent) == len(names):
        raise UnreadableLogError(
            f"{printable(some(names, 3))}: no line of NCCL (`NCCL INFO`)", _HOW_TO_LOG
        )
    return tally, tuple(silent)


def read_streams(streams: Iterable[tuple[str, BinaryIO]]) -> tuple[Tally, tuple[str, ...]]:
    """Return what open logs add up to, and the names of those without a line of NCCL's.

    One without a line of NCCL's is not refused.

    Args:
        streams: name and bytes of each.

    Raises:
        UnreadableLogError: one is binary.
    """
    tally, silent = Tally(), []
    for name, stream in streams:
        tally.troubles.begin_file(name)
        if not _add_lines(stream, name, tally):
            silent.append(name)
    return tally, tuple(silent)


def read_texts(texts: Iterable[tuple[str, str]]) -> tuple[Tally, tuple[str, ...]]:
    """Return what logs in memory add up to, and the names of those without a line of NCCL's.

    None is refused: of a run's own logs, one that says nothing is a result.

    Args:
        texts: name and text of each.
    """
    tally, silent = Tally(), []
    for name, text in texts:
        tally.troubles.begin_file(name)
        *lines, last = text.encode(errors="replace").split(b"\n")
        found = sum(
            tally.add_line(line) for line in lines if b"CCL" in line or tally.troubles.wants(line)
        )
        if not tally.add_cut_line(last) and not found:
            silent.append(name)
    return tally, tuple(silent)


def _add_file(file: Path, tally: Tally) -> bool:
    if file == STDIN:
        return _add_lines(sys.stdin.buffer, "standard input", tally)
    name = printable(str(file))
    try:
        with file.open("rb") as stream:
            return _add_lines(stream, name, tally)
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory", f"Pass the logs in it: {name}/*") from None
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", "Pass the log of each rank.") from None


def _add_lines(stream: BinaryIO, name: str, tally: Tally) -> bool:
    """Add a stream's lines; return whether one of them is NCCL's."""
    found, rest, first, wants = False, b"", True, tally.troubles.wants
    while chunk := stream.read(_CHUNK_BYTES):
        if first:
            refuse_binary(chunk, name)
            first = False
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            # Most lines of a training job are not NCCL's, or RCCL's, and name no error.
            if b"CCL" in line or wants(line):
                found |= tally.add_line(line)
        if len(rest) > _LINE_BYTES:
            rest = rest[-_CHUNK_BYTES // 16 :]
    if first:
        return False
    return tally.add_cut_line(rest) or found


def refuse_binary(chunk: bytes, name: str) -> None:
    """Raise an error for the beginning of a file that is no text."""
    if chunk.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh")):
        raise UnreadableLogError(
            f"{name}: is compressed", "Decompress it: zcat FILE | rdmaprov explain nccl-log -"
        )
    # A crashed node leaves holes of zeros in a log; programs and UTF-16 have them throughout.
    if sum(chunk.count(control) for control in range(8)) * 100 > len(chunk):
        raise UnreadableLogError(f"{name}: is binary, not a log", _HOW_TO_LOG)
