"""A rank from its start to its end."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from .progress import Watch, say

PR_SET_PDEATHSIG = 1  # linux/prctl.h
FAILED = 1
_ERROR_CHARACTERS = 2000


def main(path: Path) -> int:
    """Perform tasks until the end; return the exit status, after an event that says what is wrong.

    The rank ends with what started it, however that ends, so that none is left behind.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    plan = json.loads(path.read_text())
    watch = Watch(path.with_name(f"progress.{os.environ['RANK']}"))
    watch.begin_phase("import torch", plan["limits_s"]["import"])
    try:
        _perform_all(path.parent, plan, watch)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]
        say("failed", phase=watch.name, error=text, entered=watch.entered)
        watch.evidence()
        return FAILED
    say("done")
    # Groups are not destroyed: that waits for ranks that have ended already.
    sys.stdout.flush()
    os._exit(0)


def _perform_all(directory: Path, plan: dict[str, object], watch: Watch) -> None:
    from .rank import RankProcess
    from .tasks import next_tasks, perform

    process = RankProcess(plan, watch)
    process.join_rendezvous()
    watch.uses_nccl = process.on_gpu
    for task in next_tasks(directory, watch):
        perform(process, task)
    process.leave()
