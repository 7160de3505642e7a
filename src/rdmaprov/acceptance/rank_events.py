"""What ranks and supervisors print, checked line by line: known kinds, keys, ranges and lengths.

Not a JSON Schema: thousands of ranks print half a million lines, and a validator needs 0.1 ms each.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from rdmaprov.boundary import OddAnswer
from rdmaprov.problem import printable

RankEvent = Mapping[str, Any]
MOST_LINE = 1024 * 1024  # links to 8,000 peers
MOST_EVENTS = 200_000  # of one node; eight ranks that measure all pairs of 1,024 nodes say less
MOST_OUTPUT_BYTES = 64 * 1024 * 1024  # of one node
_MOST_TEXT = 4096
_MOST_ITEMS = 16_384
_MOST_NUMBER = 1 << 63
_RANK = re.compile(r"\d{1,7}")
Check = Callable[[Any], bool]


def _text(value: object) -> bool:
    """Return whether it is a text that UTF-8 has; agents cut their errors at 2,000 characters."""
    return isinstance(value, str) and len(value) <= _MOST_TEXT and _is_whole(value)


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_NUMBER


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER


def _finite(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 <= value < _MOST_NUMBER  # type: ignore[operator,arg-type]


def _any_number(value: object) -> bool:
    """Return whether it is a number; a wrong sum may be infinite or none at all."""
    return isinstance(value, float) or _integer(value)


def _boolean(value: object) -> bool:
    return isinstance(value, bool)


def _list_of(check: Check) -> Check:
    return lambda value: (
        isinstance(value, list) and len(value) <= _MOST_ITEMS and all(map(check, value))
    )


def _mapping_to(check: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and len(value) <= _MOST_ITEMS
        and all(map(_text, value))
        and all(map(check, value.values()))
    )


def _fields(checks: Mapping[str, Check]) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == checks.keys()
        and all(check(value[name]) for name, check in checks.items())
    )


def _first_wrong(value: object) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(map(_any_number, value))


_LINK = _fields({"from": _text, "to": _text, "segments": _natural, "again": _natural})
_ROW: dict[str, Check] = {"plane": _text, "dtype": _text, "bytes": _natural, "in_place": _boolean}
_KINDS: dict[str, dict[str, Check]] = {
    "phase": {"phase": _text},
    "hello": {"pid": _natural, "torch": _text, "nccl": _text},
    "missing": {"error": _text},
    "cut": {"plane": _text, "bytes": _natural, "used_s": _finite},
    "checked": {"plane": _text, "bytes": _natural, "dtypes": _list_of(_text)},
    "wrong": {**_ROW, "first": _first_wrong, "of": _natural},
    "row": {**_ROW, "count": _natural, "median_us": _finite, "p99_us": _finite, "min_us": _finite},
    "source": {"plane": _text, "source": _natural, "first": _first_wrong},
    "waits": {"plane": _text, "us": _list_of(_finite)},
    "pair": {"plane": _text, "to": _natural, "us": _finite, "gb_s": _finite},
    "late": {"phase": _text, "limit_s": _finite, "where": _text, "entered": _natural},
    "failed": {"phase": _text, "error": _text, "entered": _natural},
    "moved": {"plane": _text, "due_bytes": _natural, "bytes": _mapping_to(_natural)},
    "links": {"plane": _text, "links": _list_of(_LINK)},
    "done": {},
}
_AT = _fields({"entered": _natural, "left": _natural, "phase": _text, "process": _text})


def parse_event(line: str, ranks: range, world: int) -> RankEvent | None:
    """Return the event on a line; None for what else a library prints.

    Args:
        line: of the ranks' standard output.
        ranks: those of the node that printed it; it cannot speak for others.
        world: number of all ranks.

    Raises:
        OddAnswer: it names itself an event and is none of ours.

    """
    if len(line) > MOST_LINE:
        raise OddAnswer(f"a line of its ranks exceeds {MOST_LINE} characters")
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not {"event", "rank"} <= event.keys():
        return None
    kind, rank = event["event"], event["rank"]
    checks = _KINDS.get(kind) if isinstance(kind, str) else None
    if checks is None or not _natural(rank) or rank not in ranks:
        raise OddAnswer(f"its ranks report what no rank of it does: {_shown(line)}")
    if event.keys() != {"event", "rank", *checks} or not all(
        check(event[name]) for name, check in checks.items()
    ):
        raise OddAnswer(f"its ranks report an event of another shape: {_shown(line)}")
    if not all(event.get(name, 0) < world for name in ("to", "source")):
        raise OddAnswer(f"its ranks report a rank that is not there: {_shown(line)}")
    return event


def parse_status(head: str, ranks: range) -> dict[str, Any]:
    """Return what a supervisor wrote: torchrun's exit status, why, and what each rank is at.

    Args:
        head: a line of JSON; `{}` before the first one is written.
        ranks: those of the node.

    Raises:
        OddAnswer: it is of another shape.

    """
    try:
        status = json.loads(head) if len(head) <= MOST_LINE else None
    except (ValueError, RecursionError):
        status = None
    if status == {}:
        return {"rc": None, "why": "", "ranks": {}}
    checks: dict[str, Check] = {
        "rc": lambda value: value is None or _integer(value),
        "why": _text,
        "ranks": _mapping_to(_AT),
    }
    if not _fields(checks)(status):
        raise OddAnswer(f"its supervisor reports another shape: {_shown(head)}")
    assert isinstance(status, dict)  # noqa: S101 - _fields has seen that
    if not all(_RANK.fullmatch(rank) and int(rank) in ranks for rank in status["ranks"]):
        raise OddAnswer(f"its supervisor reports ranks of others: {_shown(head)}")
    return status


def _shown(line: str) -> str:
    return printable(line[:80])
