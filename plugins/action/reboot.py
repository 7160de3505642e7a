"""Reboots a node and waits until it is up: in rounds of playbooks/apply.yml, so no fork waits."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils.answers import clean
from ..plugin_utils.budget import limited_memory
from ..plugin_utils.node_lock import NodeClaim

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Names the boot that it ends: where ssh or a round repeats it, no node reboots twice.
_ASK = (
    f'[ "$(cat {_BOOT_ID})" = {{}} ] || exit 0; '
    "PATH=$PATH:/usr/sbin:/sbin; shutdown -r now 'rdmaprov reboots this node' < /dev/null"
)
_LOOK = f"cat {_BOOT_ID}; systemctl is-system-running; true"
_ANSWER = re.compile(r"^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s+([a-z]*)", re.M)
_STARTS = ("initializing", "starting")  # ssh answers before all services have started
# A node is asked after a third of the time so far, and no later than this; or 60 times in all.
_MOST_POLL_S, _POLLS = 30.0, 60


class ActionModule(ActionBase):
    """Asks for the reboot, then what boot the node is in, until that is another."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the boot_id of before as `rebooted_from`, or that the node is `running` to it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        claim = NodeClaim(task_vars, is_check=False)
        limit_s, answer = float(self._task.args["timeout_s"]), claim.too_early()
        first = {"boot_id": str(self._task.args["boot_id"]), "since": time.monotonic()}
        state = claim.state("reboot") or first
        while answer is None:
            ended = self._advance(state, limit_s)
            answer = {**ended, **claim.facts} if ended else None
            most_s = max(_MOST_POLL_S, limit_s / _POLLS)
            answer = answer or claim.ask_later("reboot", state, most_s)
        return {**result, **answer}

    def _advance(self, state: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """Return the task's result, None while the node is to be asked again; update the state.

        Services that do not end to start are waited for as long as the boot, and no failure.
        """
        before, when = state["boot_id"], f"within {limit_s:.0f} s after it was told to reboot"
        seen, said = self._look() if "seen" in state else (before, "")
        is_late = time.monotonic() > state["since"] + limit_s
        if seen not in ("", before):
            if said not in _STARTS or (is_late and "is_back" in state):
                return {"changed": True, "rebooted_from": before}
            state["since"] = state["since"] if "is_back" in state else time.monotonic()
            state["is_back"] = True
        elif is_late:
            same = "was away, and did not reboot" if "was_away" in state else "did not go down"
            why = f"{same} {when}: its boot_id is the same" if seen else f"did not return {when}"
            return {"failed": True, "msg": f"the node {why}{'' if seen else f': {said}'}"}
        elif seen and "is_asked" not in state:
            code, said = self._run(_ASK.format(shlex.quote(before)))
            if code:
                return {"failed": True, "msg": f"shutdown -r failed: {_one_line(said)}"}
            state |= {"is_asked": True} if code == 0 else {}
        state |= {"seen": seen} if seen else {"seen": seen, "was_away": True}
        return None

    def _look(self) -> tuple[str, str]:
        """Return the node's boot_id and how far its system is; or nothing, and why."""
        with contextlib.suppress(AnsibleError):
            self._connection.reset()  # one from before the boot would end at its next keepalive
        _, said = self._run(_LOOK)
        found = _ANSWER.search(said)
        return (found[1], found[2]) if found else ("", _one_line(said))

    def _run(self, command: str) -> tuple[int | None, str]:
        """Return how a command ended and what was said; None where the node could not be asked."""
        try:
            with limited_memory():
                done = self._low_level_execute_command(command)
        except AnsibleError as error:
            return None, str(error).rpartition("via ssh: ")[2]
        # With ssh's terminal, a node's errors are in stdout, and stderr says that ssh ended.
        return int(done["rc"]), str(done["stdout"].strip() or done["stderr"].strip())


def _one_line(text: str) -> str:
    return clean(" ".join(text[-500:].split()) or "no answer")
