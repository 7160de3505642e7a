"""Known words of broken jobs: what they mean, whose fault it is, and what to do.

The words are those of NCCL's WARN calls at the tags v2.18.3-1 to v2.30.7-1, of torch's
ProcessGroupNCCL and of its launcher; causes.yml has them as data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_TABLE = Path(__file__).with_name("causes.yml")
UNKNOWN = "said"  # the last error is in no other entry
VICTIMS = ("others", "ended")  # `whose` of those who say nothing of what went wrong
_LAST = re.compile(r"Last (?:error|RCCL warning): *\n?((?:(?!Exception raised)[^\n])*)")
# Of a line of torch's, and of Ray's.
PREFIX = re.compile(
    r"^.{0,80}?\[rank\d+\]:? ?|^\([\w/.:-]{1,60}(?: rank=\d+)? pid=\d{1,9}(?:, ip=\S{1,45})?\) "
)


@dataclass(frozen=True)
class KnownCause:
    """A kind of trouble."""

    id: str
    said: re.Pattern[str]
    means: str
    fix: str
    whose: str = "own"  # `own`, `all`, `others`, `open` or `ended`; causes.yml says what each is
    by: str = ""  # `launcher` if no rank writes it
    # `alone`, `start`, `path`, `never`, `lost` or `last`: what proves that a job failed of it
    ends: str = "alone"

    def meaning(self, words: str) -> str:
        """Return what it is in the case of these words."""
        found = self.said.search(words)
        return self.means.format(*found.groups("another host")) if found else self.means


@cache
def causes() -> dict[str, KnownCause]:
    """Return the table, by id."""
    import yaml

    rows: list[dict[str, Any]] = yaml.safe_load(_TABLE.read_text())
    return {row["id"]: KnownCause(**{**row, "said": _compiled(row["said"])}) for row in rows}


def _compiled(said: str | list[str]) -> re.Pattern[str]:
    return re.compile(said if isinstance(said, str) else "|".join(said))


def find_cause(words: str) -> KnownCause | None:
    """Return what words mean, None if the table does not know them."""
    if not words:
        return None
    return next((each for each in causes().values() if each.said.search(words)), None)


def last_error(error: str) -> str:
    """Return what NCCL said last, from torch's error; empty if that is not in it."""
    plain = "\n".join(PREFIX.sub("", line) for line in error.splitlines())
    return next((said.strip() for said in _LAST.findall(plain) if said.strip()), "")


def known_causes(text: str) -> Iterator[tuple[KnownCause, str]]:
    """Yield causes in the WARNs of a log, each with its words."""
    for line in text.splitlines():
        if " NCCL WARN " in line and (cause := find_cause(line)) is not None:
            yield cause, line.partition(" NCCL WARN ")[2].strip()
