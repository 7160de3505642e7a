"""A rank from its start to its end."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from .links import connections, moved_bytes, sent_bytes
from .watch import Watch, say

PR_SET_PDEATHSIG = 1  # linux/prctl.h
FAILED = 1
_ERROR_CHARACTERS = 2000


def main(path: Path) -> int:
    """Carry out the plan; return the exit status, after an event that says what went wrong.

    The rank ends with torchrun, however that ends, so that none is left behind.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    plan = json.loads(path.read_text())
    watch = Watch(path.with_name(f"progress.{os.environ['RANK']}"))
    watch.begin_phase("import torch", plan["limits_s"]["import"])
    try:
        _prove(plan, watch)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]
        say("failed", phase=watch.name, error=text, entered=watch.entered)
        watch.evidence()
        return FAILED
    say("done")
    # Groups are not destroyed: that waits for ranks that have ended already.
    sys.stdout.flush()
    os._exit(0)


def _prove(plan: dict[str, object], watch: Watch) -> None:
    from .latency import measure_latency
    from .rank import RankProcess

    rank = RankProcess(plan, watch)
    rank.join_rendezvous()
    for plane in rank.plan["planes"]:
        before = sent_bytes()
        watch.evidence = lambda plane=plane: _say_links(plane)  # type: ignore[misc]
        rank.connect(plane)
        rank.sweep(plane["name"])
        measure_latency(rank, plane["name"])
        if rank.local == 0:
            moved = moved_bytes(before)
            say("moved", plane=plane["name"], due_bytes=rank.due_bytes, bytes=moved)
        if not rank.on_gpu:
            _say_links(plane)
    watch.begin_phase("end", rank.plan["limits_s"]["step"])
    rank.maximum(0)


def _say_links(plane: dict[str, str]) -> None:
    own = [each for each in connections() if each["from"] == plane["address"]]
    say("links", plane=plane["name"], links=own)
