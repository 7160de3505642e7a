"""The controller's part of a node's lock: which run asks, whether to try again, who holds it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from .answers import Held, parse_holder
from .holder import Holder, of_process

# A task of a run that has ended ends by itself; whoever resumes that run waits for it.
LAST_TASK_S = 300.0
_RETRY_S = 2.0
# A node ends a long step after four hours; see module_utils/long_step.py.
MOST_STEP_S = 4 * 3600 + 900.0
# A poll costs a round trip, and comes after a third of the time so far: a step of a minute is
# noticed within 20 s, and one of three hours is asked for about 50 times.
_LEAST_POLL_S, _MOST_POLL_S = 5.0, 300.0
FACT = "rdmaprov_running"


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
        known = variables or {}
        given = known.get("apply_lock")
        self._is_check = is_check
        self._is_run = given is not None
        self._wait_s = 0.0
        if given is None:
            self._holder = of_process(os.getppid(), "")
        else:
            self._holder = parse_holder(given["holder"])
            self._wait_s = float(given["wait_s"])
        self._clock, self._pause = clock, pause
        self._first: float | None = None
        facts = (known.get("ansible_facts") or {}).get(FACT) or {}
        self._was = facts if facts.get("run") == self._holder.id else {}
        self._replace = str(self._was.get("replace", ""))
        # The playbook asks again; no fork is held meanwhile.
        self._has_rounds = self._is_run and bool(known.get("apply_rounds"))

    def request(self) -> dict[str, Any]:
        """Return the module's argument `lock`."""
        if self._is_check:
            return {}
        holder = asdict(self._holder)
        keep = self._is_run
        return {"holder": holder, "keep": keep, "replace": self._replace, "unit": True}

    def await_step(self, role: str, held: Held | None) -> dict[str, Any] | None:
        """Wait for a long step; return the task's result where a next task asks again, or none can.

        Args:
            role: where this run stands; empty for its survey.
            held: by whom; None for this run itself.
        """
        now = self._clock()
        since = float(self._was.get("since", now))
        self._replace = held.holder.id if held is not None and held.holder else ""
        self._was = {"run": self._holder.id, "role": role, "since": since}
        self._was["replace"] = self._replace
        if now - since > MOST_STEP_S:
            hours = f"{(now - since) / 3600:.0f} hours"
            return {"failed": True, "msg": f"the node still says after {hours} that it is at work"}
        poll_s = min(max((now - since) / 3, _LEAST_POLL_S), _MOST_POLL_S)
        if not self._has_rounds:
            self._pause(poll_s)
            return None
        who = f"waits for what {held.holder} left running on the node" if held is not None else ""
        facts = {FACT: {**self._was, "poll_s": poll_s}}
        return {"changed": False, "running": True, "msg": who, "ansible_facts": facts}

    @property
    def facts(self) -> dict[str, Any]:
        """Return what a result says once nothing runs any more and an earlier one said so."""
        return {"ansible_facts": {FACT: {}}} if self._was and self._has_rounds else {}

    def left_running(self, held: Held) -> bool:
        """Return whether a long step of a run that has ended holds the node."""
        return held.step and held.running and held.holder is not None and self._is_over(held.holder)

    def try_again(self, held: Held) -> bool:
        """Return whether to run the module again, after a while, as the node was held."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        holder = held.holder
        has_ended = holder is not None and self._is_over(holder)
        if holder is not None and has_ended and not held.running and not self._replace:
            self._replace = holder.id
            return True
        if now >= self._first + max(self._wait_s, LAST_TASK_S if has_ended else 0.0):
            return False
        self._pause(_RETRY_S)
        return True

    def _is_over(self, holder: Holder) -> bool:
        return holder.id == self._holder.id or holder.has_ended()  # a cut connection's module


def refusal(held: Held) -> str:
    """Return why a node that another run holds was not changed, and what to do."""
    who = f"held by {held.holder}" if held.holder is not None else "held by another run"
    ends = (
        "it changes the node now"
        if held.running
        else f"if that run was killed, the lock ends by itself in {held.left_s:.0f} s"
    )
    return f"{who}; {ends}. Wait for that run to end, or pass --wait SECONDS"
