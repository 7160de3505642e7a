"""The controller's part of a node's lock: which run asks, whether to try again, who holds it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from .answers import Held, parse_holder
from .holder import of_process

# A task of a run that has ended ends by itself; whoever resumes that run waits for it.
LAST_TASK_S = 300.0
_RETRY_S = 2.0


class NodeClaim:
    """A run's claim to change a node, for one role.

    `rdmaprov apply` names its run in the variable apply_lock and holds the node from one role to
    the next. Without it nobody says when a run has ended: a role holds the node while it runs.

    Args:
        is_check: whether nothing is to change, so that no lock is needed.
        clock: seconds that never go back.
        pause: waits for some seconds.
    """

    def __init__(
        self,
        variables: Mapping[str, Any] | None,
        is_check: bool,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        given = (variables or {}).get("apply_lock")
        self._is_check = is_check
        self._is_run = given is not None
        self._wait_s = 0.0
        if given is None:
            self._holder = of_process(os.getppid(), "")
        else:
            self._holder = parse_holder(given["holder"])
            self._wait_s = float(given["wait_s"])
        self._clock, self._pause = clock, pause
        self._replace = ""
        self._first: float | None = None

    def request(self) -> dict[str, Any]:
        """Return the module's argument `lock`."""
        if self._is_check:
            return {}
        return {"holder": asdict(self._holder), "keep": self._is_run, "replace": self._replace}

    def try_again(self, held: Held) -> bool:
        """Return whether to run the module again, after a while, as the node was held."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        holder = held.holder
        has_ended = holder is not None and (
            holder.id == self._holder.id or holder.has_ended()  # a cut connection's module
        )
        if holder is not None and has_ended and not held.running and not self._replace:
            self._replace = holder.id
            return True
        if now >= self._first + max(self._wait_s, LAST_TASK_S if has_ended else 0.0):
            return False
        self._pause(_RETRY_S)
        return True


def refusal(held: Held) -> str:
    """Return why a node that another run holds was not changed, and what to do."""
    who = f"held by {held.holder}" if held.holder is not None else "held by another run"
    ends = (
        "it changes the node now"
        if held.running
        else f"if that run was killed, the lock ends by itself in {held.left_s:.0f} s"
    )
    return f"{who}; {ends}. Wait for that run to end, or pass --wait SECONDS"
