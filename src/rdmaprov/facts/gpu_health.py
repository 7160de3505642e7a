"""Health of a GPU, as `nvidia-smi -q` shows it: fields by driver (gpu_health.csv), and their rules.

The newest driver's way to a field stands first. Not judged: SW Power Cap, Idle, clocks that were
set; aggregate DRAM errors, which were remapped; totals of replays; the enforced power limit, which
a GH200's module lowers. Sources: nvml.h; NVIDIA's GPU Memory Error Management.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import NamedTuple

from rdmaprov.facts.gpu import NOT_SUPPORTED, Gpu

_BUSY = 50  # percent; our choice: the link of a GPU that is less at work may be slower
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: C| W| %| bank\(s\)|x)?")
# Also what a driver shows of a line that it only keeps, and NVML of a guest's host.
_NO_VALUE = (*NOT_SUPPORTED, "Requested functionality has been deprecated", "Unknown Error", "")


class Found(NamedTuple):
    """What a field shows: `seen` is None if the driver does not print it, `wanted` if unknown."""

    kind: str
    name: str
    seen: str | None
    wanted: str | None = ""  # what is expected; empty if it is right


def findings(gpu: Gpu, check: str) -> Iterator[Found]:
    """Yield what each field of a check shows, without those that the GPU does not have."""
    rows = (row for row in table() if row["check"] == check)
    for field, ways in groupby(rows, lambda row: (row["kind"], row["field"])):
        found = [_judge(gpu, way) for way in ways]
        if not any(found):
            yield Found(*field, None)
        yield from [Found(*field, *each) for each in found if each and each[0]][:1]


@cache
def table() -> tuple[Mapping[str, str], ...]:
    """Return the rows of the table."""
    with Path(__file__).with_suffix(".csv").open() as file:
        return tuple(csv.DictReader(file))


def _judge(gpu: Gpu, way: Mapping[str, str]) -> tuple[str, str | None] | None:
    """Return what is seen and expected: nothing if the GPU has it not, None if the driver not."""
    seen, *limits = (_text(gpu, way[each]) for each in ("path", "limit", "load") if way[each])
    if not seen or not all(limits):
        return None if seen is None else ("", "")
    try:
        wanted = _RULES[way["rule"]](seen, *map(str, limits))
    except ValueError:
        return seen, None
    return ("", "") if wanted is None else (seen, wanted)


def _text(gpu: Gpu, path: str) -> str | None:
    """Return what stands at a path: empty if the GPU has it not, None if the driver prints it not.

    A section that a GPU does not have is one line: `Remapped Rows : N/A`.
    """
    names = (path, path.replace("clocks event", "clocks throttle"))  # from 535 on, and before
    sections = (each for name in names for each in accumulate(name.split("/"), "{}/{}".format))
    text = next((gpu.values[each] for each in sections if each in gpu.values), None)
    return "" if text in _NO_VALUE else text


def _number(text: str) -> float:
    if (found := _NUMBER.fullmatch(text)) is None:
        raise ValueError(text)
    return float(found[1])


def _word(seen: str, right: str, wrong: str) -> str:
    if seen not in (right, wrong):
        raise ValueError(seen)
    return right if seen == wrong else ""


# From a value and its limits, what is expected: empty if the value is right, None if not judged.
_RULES: Mapping[str, Callable[..., str | None]] = {
    "inactive": lambda seen: _word(seen, "Not Active", "Active"),
    # nvml.h: HW Slowdown may also be reported during a change of P-state.
    "at work": lambda seen, idle: _word(seen, "Not Active", "" if idle == "Active" else "Active"),
    "no": lambda seen: _word(seen, "No", "Yes"),
    "none": lambda seen: "" if seen == "None" else "None",
    "zero": lambda seen: "0" if _number(seen) else "",
    "least": lambda seen, limit: f"{limit} or more" if _number(seen) < _number(limit) else "",
    "above": lambda seen, limit: "" if _number(seen) > _number(limit) else f"above {limit}",
    "below": lambda seen, limit: "" if _number(seen) < _number(limit) else f"below {limit}",
    "loaded": lambda seen, most, load: (
        None if _number(load) < _BUSY else _RULES["least"](seen, most)
    ),
}
