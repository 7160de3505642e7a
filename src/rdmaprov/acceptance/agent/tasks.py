"""Tasks: files that appear in a rank's directory, and what is done for each."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .gpu import measure_gpu
from .group import RankGroup
from .latency import measure_pair, measure_waits
from .links import LinkCounter, moved_bytes, sent_bytes
from .progress import Watch, say
from .rank import RankProcess
from .soak import Soak
from .sweep import Sweep

MOST_CHARACTERS = 32_768


def flight_record(dump: Callable[[], object] | None = None) -> str:
    """Return the end of torch's flight recorder: its last collectives, as JSON that is cut."""
    try:
        if dump is None:
            from torch._C import _distributed_c10d

            dump = _distributed_c10d._dump_nccl_trace_json
        record = dump()
    except Exception as error:  # it is torch's private function, and this rank ends anyway
        return f"no flight record: {error}"[:MOST_CHARACTERS]
    text = record.decode("utf-8", "replace") if isinstance(record, bytes) else str(record)
    return text[-MOST_CHARACTERS:]


_PAUSE_S = 0.02
Task = dict[str, Any]


def next_tasks(directory: Path, watch: Watch) -> Iterator[Task]:
    """Yield the tasks in the order in which they are given, until the one that ends it.

    There is no time limit: who supervises the ranks ends them if nobody asks any more.
    """
    for number in itertools.count():
        path = directory / f"task.{number}"
        if not path.exists():
            watch.begin_phase("waiting for a task", float("inf"))
            while not path.exists():
                time.sleep(_PAUSE_S)
        task: Task = json.loads(path.read_text())
        if task.get("end"):
            return
        yield task


def perform(process: RankProcess, task: Task) -> None:
    """Do what a task asks of this rank, and report its end."""
    own = [index for index, ranks in task["groups"].items() if process.rank in ranks]
    process.watch.task, began = task["number"], time.monotonic()
    if own and task["collective"] == "gpu":
        process.watch.begin_phase("gpu", process.plan["limits_s"]["step"])
        measure_gpu(process.alone(task, int(own[0])))
    elif own:
        _measure(process, task, int(own[0]))
    process.watch.task = -1
    say("finished", task=task["number"], seconds=round(time.monotonic() - began, 3))


def _say_evidence(group: RankGroup, links: LinkCounter) -> None:
    """Report what may explain a failure or a hang."""
    if not group.process.on_gpu:
        group.say("links", links=links.changes())
        return
    group.say("flight", text=flight_record())


def _phase(task: Task) -> str:
    if task["collective"] == "exchange":
        return "pairs"
    return "soak" if task["soak_s"] else "sweep"


def _measure(process: RankProcess, task: Task, index: int) -> None:
    plane, watch = process.planes[task["plane"]], process.watch
    before, links = sent_bytes(), LinkCounter(plane["address"])
    group = process.group(task, index)
    watch.evidence = lambda: _say_evidence(group, links)
    name = _phase(task)
    watch.begin_phase(f"{task['plane']}: {name}", process.plan["limits_s"]["step"])
    if task["collective"] == "exchange":
        measure_pair(group)
    elif task["soak_s"]:
        Soak(group).run()
    else:
        Sweep(group).run()
        if task["collective"] == "all_reduce":
            measure_waits(group)
    if process.local == 0:
        group.say("moved", due_bytes=group.due_bytes, bytes=moved_bytes(before))
    if not process.on_gpu:
        group.say("links", links=links.changes())
    watch.evidence = lambda: None
    if task["collective"] == "exchange":
        process.drop(group)
