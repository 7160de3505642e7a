"""What ranks and supervisors print, checked line by line: known kinds, keys, ranges and lengths."""

import json
from collections.abc import Mapping
from typing import Any

from rdmaprov.acceptance.ranks.plan import Task
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
    message,
    number,
    shown,
    text,
)

RankEvent = Mapping[str, Any]
MOST_LINE = 1024 * 1024  # links to 8,000 peers
MOST_EVENTS = 200_000  # of one node; eight ranks that measure all pairs of 1,024 nodes say less
MOST_RECORD = 32_768  # characters, as agent/tasks.py has them
MOST_OUTPUT_BYTES = 64 * 1024 * 1024  # of one node
_MOST_PEERS = 16_384
_TEXT, _NATURAL, _NUMBER = text(), integer(), number()
# Rates are made of them: nothing takes less than a nanosecond, or moves a byte a second.
_TIME_US, _GB_S = number(least=1e-3), number(least=1e-9)


def _any_number(value: object) -> str | None:
    """Check a number of a wrong sum, which may be infinite or none at all."""
    if type(value) is int:
        return RIGHT if abs(value) <= MOST_NUMBER else WRONG
    return RIGHT if type(value) is float else WRONG


def _long_text(value: object) -> str | None:
    """Check what torch's flight recorder said: agent/tasks.py cuts it."""
    if not isinstance(value, str) or len(value) > MOST_RECORD:
        return WRONG
    return WRONG if any("\ud800" <= each <= "\udfff" for each in value) else RIGHT


_FIRST = list_of(_any_number, 4, least=4)
_ADDRESS = text(r"[0-9a-fA-F.:]{2,45}")
_LINK = fields({"from": _ADDRESS, "to": _ADDRESS, "segments": _NATURAL, "again": _NATURAL})
_OF_TASK: dict[str, Check] = {"plane": _TEXT, "task": _NATURAL, "group": _NATURAL}
_ROW: dict[str, Check] = {**_OF_TASK, "dtype": _TEXT, "bytes": _NATURAL, "in_place": boolean}
_MOST_INTERVALS = 100_000
_SENSOR = number(least=-1)  # -1: the driver does not say
_SPAN = fields(
    {
        "tflops": _GB_S,
        "cpu_tflops": _GB_S,
        "mhz": _SENSOR,
        "watts": _SENSOR,
        "celsius": _SENSOR,
        "reasons": _NATURAL,
    }
)
_SHAPES: dict[str, dict[str, Check]] = {
    "phase": {"phase": _TEXT},
    "hello": {"pid": _NATURAL, "torch": _TEXT, "nccl": _TEXT},
    "missing": {"error": message},
    "cut": {**_OF_TASK, "bytes": _NATURAL, "used_s": _NUMBER},
    "checked": {**_OF_TASK, "bytes": _NATURAL, "dtypes": list_of(_TEXT, 64)},
    "wrong": {**_ROW, "first": _FIRST, "of": _NATURAL, "iteration": _NATURAL},
    "row": {
        **_ROW,
        "count": _NATURAL,
        "median_us": _TIME_US,
        "p99_us": _TIME_US,
        "min_us": _TIME_US,
    },
    "source": {**_OF_TASK, "source": _NATURAL, "first": _FIRST},
    "witness": {**_OF_TASK, "peer": _NATURAL, "wrong": _NATURAL},
    "waits": {**_OF_TASK, "us": list_of(_NUMBER, _MOST_PEERS, least=1)},
    "pair": {**_OF_TASK, "to": _NATURAL, "us": _TIME_US, "gb_s": _GB_S, "reduce_us": _TIME_US},
    "late": {"phase": _TEXT, "limit_s": _NUMBER, "where": message, "entered": _NATURAL},
    "failed": {"phase": _TEXT, "error": message, "entered": _NATURAL},
    "ras": {"report": message},
    "moved": {**_OF_TASK, "due_bytes": _NATURAL, "bytes": mapping_to(_NATURAL)},
    "links": {**_OF_TASK, "links": list_of(_LINK, _MOST_PEERS)},
    "soak": {
        **_OF_TASK,
        "interval": integer(0, _MOST_INTERVALS),
        "count": _NATURAL,
        "median_us": _TIME_US,
        "min_us": _TIME_US,
        "max_us": _TIME_US,
    },
    "gpu": {
        **_OF_TASK,
        "device": text(most=128),
        "pci": text(r"([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?"),
        "link": list_of(_SENSOR, 4, least=4),
        "limit_w": _SENSOR,
        "processes": _SENSOR,
        "replays": _SENSOR,
        "spans": list_of(_SPAN, 600, least=1),
        **dict.fromkeys(("fp8_tflops", "memory_gb_s", "to_gpu_gb_s", "from_gpu_gb_s"), _NUMBER),
        "wrong": mapping_to(_NATURAL),
        "checked": _NATURAL,
    },
    "flight": {**_OF_TASK, "text": _long_text},
    "finished": {"task": _NATURAL, "seconds": _NUMBER},
    "done": {},
    "ended": {"status": integer(-64, 255)},
}
_OPTIONAL = ("iteration", "reduce_us", "replays", "seconds")
_KINDS = {
    kind: fields({"event": _TEXT, "rank": _NATURAL, **checks}, _OPTIONAL)
    for kind, checks in _SHAPES.items()
}
_COUNTS = {"communicator": _NATURAL, "entered": _NATURAL, "left": _NATURAL}
_AT = fields({**_COUNTS, "phase": _TEXT, "process": text(most=1)})


def _exit_status(value: object) -> str | None:
    return RIGHT if value is None else integer(-1024, 1024)(value)


_STATUS = fields(
    {"rc": _exit_status, "why": message, "ranks": mapping_to(_AT, text(r"[0-9]{1,7}"), _MOST_PEERS)}
)


def parse_event(
    line: str, ranks: range, world: int, tasks: Mapping[int, Task] | None = None
) -> RankEvent | None:
    """Return the event on a line; None for what else a library prints.

    Args:
        ranks: those of the node that printed it; it cannot speak for others.
        tasks: those that the ranks were given, by number; None to take any.

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
    check = _KINDS.get(kind) if isinstance(kind, str) else None
    if check is None or type(rank) is not int or rank not in ranks:
        raise OddAnswer(f"its ranks report what no rank of it does: {shown(line)}")
    if (where := check(event)) is not RIGHT:
        raise OddAnswer(f"its ranks report {kind} with a wrong {shown(where) or 'shape'}")
    if not all(event.get(name, 0) < world for name in ("to", "source", "peer")):
        raise OddAnswer(f"its ranks report a rank that does not exist: {shown(line)}")
    if tasks is not None and "task" in event and not _is_of_task(event, tasks):
        raise OddAnswer(f"its ranks report a task that is not theirs: {shown(line)}")
    return event


def _is_of_task(event: RankEvent, tasks: Mapping[int, Task]) -> bool:
    """Return whether a rank was given this task, on this plane and in this group."""
    task = tasks.get(event["task"])
    if task is None:
        return False
    return "plane" not in event or (
        event["plane"] == task.plane and task.group_of.get(event["rank"]) == event["group"]
    )


def parse_status(head: str, ranks: range) -> dict[str, Any]:
    """Return what a supervisor wrote: the agent's exit status, why, and what each rank is at.

    Args:
        head: a line of JSON; `{}` before the first one is written.

    Raises:
        OddAnswer: it is of another shape.
    """
    try:
        status = json.loads(head) if len(head) <= MOST_LINE else None
    except (ValueError, RecursionError):
        status = None
    if status == {}:
        return {"rc": None, "why": "", "ranks": {}}
    if (where := _STATUS(status)) is not RIGHT:
        raise OddAnswer(f"its supervisor reports a wrong {shown(where) or 'status'}")
    assert isinstance(status, dict)  # noqa: S101 - the check has seen that
    if not all(int(rank) in ranks for rank in status["ranks"]):
        raise OddAnswer(f"its supervisor reports ranks of others: {shown(head)}")
    return status
