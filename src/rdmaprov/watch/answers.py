"""What a node answers while it is watched, checked: names of counters, and how much they grew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.boundary import (
    MOST_NUMBER,
    RIGHT,
    WHY,
    WRONG,
    OddAnswer,
    fields,
    integer,
    integers,
    list_of,
    parse_answer,
    text,
)

MOST_COUNTERS = 4096  # 64 rails of 64 counters; eight of mlx5 have 480
MOST_ANSWER = 512 << 10
_MOST_US = 366 * 86_400 * 1_000_000
_DEVICE = text(r"[\w.:@-]{0,32}")
_integer = integer(0, MOST_NUMBER)


def _count(value: object) -> str | None:
    return RIGHT if value is None or _integer(value) is RIGHT else WRONG


_RAIL = fields({"rdma": _DEVICE, "netdev": _DEVICE, "unfit": WHY}, optional=["unfit"])
_OPENED = fields(
    {
        "us": integer(0, _MOST_US),
        "cpu_us": integer(0, _MOST_US),
        "boot": text(r"[0-9a-f-]{0,36}"),
        "names": list_of(text(r"[0-9]{1,2}/[a-z_]{1,16}(\.\w{1,64})?"), MOST_COUNTERS),
        "counts": list_of(_count, MOST_COUNTERS),
        "rails": list_of(_RAIL, 64),
    }
)
_PLACES = integers(0, MOST_COUNTERS - 1, MOST_COUNTERS)
_READ = fields(
    {
        "us": integer(0, _MOST_US),
        "cpu_us": integer(0, _MOST_US),
        "at": _PLACES,
        "by": integers(-MOST_NUMBER, MOST_NUMBER, MOST_COUNTERS),
        "gone": _PLACES,
    }
)


@dataclass(frozen=True)
class CounterNames:
    """What there is on a node."""

    at_s: float  # when it was read, by the node's own clock
    cpu_s: float  # processor time of the program on the node so far
    boot: str  # the kernel's identity of this boot, empty if it has none
    keys: tuple[tuple[int, str], ...]
    counts: tuple[int | None, ...]  # what they are at, None for each that cannot be read
    # RDMA and network device of each rail, empty where there is none
    devices: tuple[tuple[str, str], ...]
    unfit: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CounterSteps:
    """How much counters changed between two answers."""

    at_s: float  # when they were read, by the node's own clock
    cpu_s: float  # processor time of the program on the node so far
    at: Sequence[int]
    by: Sequence[int]  # by how much, each; less than nothing if it fell
    gone: Sequence[int]  # the places of those that cannot be read


def parse_names(said: str, rails: int) -> CounterNames:
    """Return what a node has; raise OddAnswer if it is not of the expected shape."""
    data = parse_answer(said, _OPENED, MOST_ANSWER)
    keys = tuple(_key(name, rails) for name in data["names"])
    if len(data["counts"]) != len(keys) or len(set(keys)) != len(keys):
        raise OddAnswer("its answer has counters that do not match their names")
    if len(data["rails"]) != rails:
        raise OddAnswer("its answer has other rails than it was asked about")
    devices = tuple((each["rdma"], each["netdev"]) for each in data["rails"])
    unfit = {rail: each["unfit"] for rail, each in enumerate(data["rails"]) if each.get("unfit")}
    at_s, cpu_s, counts = data["us"] / 1e6, data["cpu_us"] / 1e6, tuple(data["counts"])
    return CounterNames(at_s, cpu_s, data["boot"], keys, counts, devices, unfit)


def parse_steps(said: str, counters: int) -> CounterSteps:
    """Return what changed on a node; raise OddAnswer if it is not of the expected shape."""
    data = parse_answer(said, _READ, MOST_ANSWER)
    at, by, gone = data["at"], data["by"], data["gone"]
    if len(at) != len(by) or len(set(at)) != len(at) or max([*at, *gone], default=-1) >= counters:
        raise OddAnswer("its answer names counters that it does not have")
    return CounterSteps(data["us"] / 1e6, data["cpu_us"] / 1e6, at, by, gone)


def _key(name: str, rails: int) -> tuple[int, str]:
    rail, _, counter = name.partition("/")
    if int(rail) >= rails:
        raise OddAnswer("its answer names a rail that was not asked for")
    return int(rail), counter
