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
LEAST_POLL_S, _MOST_POLL_S = 5.0, 300.0
FACT = "rdmaprov_running"
_AT_WORK = {"changed": False, "running": True}


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
        self._living: list[str] | None = None
        if given is None:
            self._holder = of_process(os.getppid(), "")
        else:
            self._holder = parse_holder(given["holder"])
            self._living = given.get("living")
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
        if now - since > MOST_STEP_S:
            hours = f"{(now - since) / 3600:.0f} hours"
            return {"failed": True, "msg": f"the node still says after {hours} that it is at work"}
        who = f"waits for what {held.holder} left running on the node" if held is not None else ""
        return self.ask_later(role, {"since": since, "replace": self._replace}, _MOST_POLL_S, who)

    def ask_later(
        self, role: str, state: Mapping[str, Any], most_s: float, message: str = ""
    ) -> dict[str, Any] | None:
        """Return the task's result where a next round asks the node again; else wait, and None.

        Args:
            state: what that round is to know: `since` when the node is at work, and more.
            most_s: after which it is asked at the latest.
        """
        now = self._clock()
        poll_s = min(max((now - state["since"]) / 3, LEAST_POLL_S), most_s)
        self._was = {**state, "run": self._holder.id, "role": role, "next": now + poll_s}
        if not self._has_rounds:
            self._pause(poll_s)
            return None
        return {**_AT_WORK, "msg": message, "ansible_facts": {FACT: self._was}}

    def too_early(self) -> dict[str, Any] | None:
        """Return the task's result if the round came for another node; None if this one's turn is.

        So the slowest of many nodes is not asked as often as the quickest.
        """
        is_due = self._clock() + LEAST_POLL_S >= self._was.get("next", 0.0)
        return None if is_due or not self._has_rounds else dict(_AT_WORK)

    def state(self, role: str) -> dict[str, Any]:
        """Return what `ask_later` left for this role; empty if it did not."""
        return dict(self._was) if self._was.get("role") == role else {}

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
        own = self._holder
        if holder.id == own.id:  # a cut connection's module
            return True
        if self._living is None or holder.machine != own.machine:
            return holder.has_ended()
        # On a relay: what the controller saw of its own processes.
        seen = holder.user == own.user and holder.started <= own.started
        return seen and f"{holder.pid} {holder.started}" not in self._living


def next_round(variables: Mapping[str, Any]) -> float:
    """Return when the first of a batch's nodes at work is to be asked, as a worker's clock has it.

    The variables of 1,000 nodes take seconds, which are part of the wait.
    """
    every, run = variables["hostvars"], variables["apply_lock"]["holder"]["id"]
    hosts = variables["ansible_play_batch"]
    facts = [(every.raw_get(host).get("ansible_facts") or {}).get(FACT) or {} for host in hosts]
    return min((fact["next"] for fact in facts if fact.get("run") == run), default=0.0)


def refusal(held: Held) -> str:
    """Return why a node that another run holds was not changed, and what to do."""
    who = f"held by {held.holder}" if held.holder is not None else "held by another run"
    ends = (
        "it changes the node now"
        if held.running
        else f"if that run was killed, the lock ends by itself in {held.left_s:.0f} s"
    )
    return f"{who}; {ends}. Wait for that run to end, or pass --wait SECONDS"
