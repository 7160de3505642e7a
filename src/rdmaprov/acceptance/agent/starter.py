"""The ranks of a node: started together, and ended together. Nothing here imports torch."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .main import FAILED
from .progress import say

_TICK_S = 0.1
# Between SIGTERM and SIGKILL; what a rank had to say, it said before.
_TERMINATE_S = 5.0


def run_ranks(path: Path, command: Sequence[str]) -> int:
    """Run the ranks of a node to their end; return 0 if each of them ended well.

    Once one has failed, the others are ended: what they wait for will not come.
    """
    plan = json.loads(path.read_text())["ranks"]
    ranks = {
        plan["first"] + local: subprocess.Popen(
            [*command, str(local)], env={**os.environ, **_environment(plan, local)}
        )
        for local in range(plan["count"])
    }
    while True:
        failed = {rank: status for rank, each in ranks.items() if (status := each.poll())}
        if failed:
            for rank, status in failed.items():
                say("ended", rank=rank, status=status)
            _end(list(ranks.values()))
            return FAILED
        if all(each.poll() == 0 for each in ranks.values()):
            return 0
        time.sleep(_TICK_S)


def _environment(plan: dict[str, Any], local: int) -> dict[str, str]:
    """Return by which variables a rank, and torch in it, know its place; as torchrun has them."""
    own = {
        "RANK": plan["first"] + local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": plan["world"],
        "LOCAL_WORLD_SIZE": plan["count"],
        "MASTER_ADDR": plan["address"],
        "MASTER_PORT": plan["port"],
        # After an error or a timeout, torch ends the rank, and NCCL's communicators before it.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1),
    }
    return {name: str(value) for name, value in own.items()}


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes, also those that are stopped or ignore signals."""
    for each in ranks:
        each.terminate()
    end = time.monotonic() + _TERMINATE_S
    while any(each.poll() is None for each in ranks) and time.monotonic() < end:
        time.sleep(_TICK_S)
    for each in ranks:
        each.kill()
        each.wait()
