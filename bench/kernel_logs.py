"""Read whole logs of boots that others published, and compare what asks for a hand with the table.

    python bench/kernel_logs.py CLONES

The table, tests/fixtures/kernel_log/whole.tsv, was written before a reader saw the logs. They are
files and mails of public repositories, and are not kept here: CLONES has a clone of each, as
OWNER/NAME, OWNER+NAME, OWNER+NAME/repo or OWNER+NAME/repo/.git. A text, found by its digest, is a
blob, a part of a mail, either of them unpacked, or one boot of these.
"""

from __future__ import annotations

import bz2
import csv
import email
import gzip
import hashlib
import lzma
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rdmaprov.kernel_log.reader import parse_log

TABLE = Path(__file__).resolve().parents[1] / "tests/fixtures/kernel_log/whole.tsv"
_PACKED = {b"\x1f\x8b": gzip.decompress, b"\xfd7zXZ": lzma.decompress, b"BZh": bz2.decompress}
# Before a boot's first line, and a line of nvidia-bug-report.sh between its sections.
_EDGE = re.compile(rb"^(?=[^\n]*\bLinux version \d)|^_{20,}$", re.M)


def unpack(data: bytes) -> bytes:
    """Return what is packed in data, or data."""
    return next((how for magic, how in _PACKED.items() if data.startswith(magic)), bytes)(data)


def texts(blob: bytes) -> Iterator[bytes]:
    """Yield a blob and the parts of a mail, unpacked, and the boots in each."""
    parts = [part.get_payload(decode=True) for part in email.message_from_bytes(blob).walk()]
    for data in (blob, *(each for each in parts if isinstance(each, bytes))):
        text = unpack(data)
        yield from (text, *_EDGE.split(text))


def judge(clones: Path, row: list[str]) -> tuple[str, str]:
    """Return what one log asks for, and what its row says; `absent` where it is not there."""
    repository, blob, digest, *_, wanted = row
    joined = repository.replace("/", "+")
    for place in (repository, joined, f"{joined}/repo", f"{joined}/repo/.git"):
        git = ["git", "-C", str(clones / place), "cat-file", "blob", blob]
        done = subprocess.run(git, capture_output=True, check=False)
        for text in texts(done.stdout) if not done.returncode else ():
            if hashlib.sha256(text).hexdigest() == digest:
                judged = parse_log(text.decode(errors="replace")).judged()
                said = {f"{each.meaning.action} {each.meaning.kind}" for each, _ in judged}
                return ", ".join(sorted(said)) or "none", wanted
    return "absent", wanted


def main() -> int:
    """Print each log that is not as the table says, and how many were read."""
    rows = [row for row in csv.reader(TABLE.open(), delimiter="\t") if not row[0].startswith("#")]
    found = [(judge(Path(sys.argv[1]), row), row) for row in rows]
    for (said, wanted), row in found:
        if said != wanted:
            print(f"{row[0]} {row[1][:12]} ({row[4]}): {said}, expected {wanted}")
    read = [each for each, _ in found if each[0] != "absent"]
    right = sum(said == wanted for said, wanted in read)
    print(f"{len(read)} of {len(rows)} logs read, {right} as expected")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
