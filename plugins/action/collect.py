"""Runs a program on a node and returns what it printed, up to a limit: what discover does."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils.answers import MOST_CHARACTERS, clean
from ..plugin_utils.budget import limited_memory
from ..plugin_utils.patience import ask_twice

# More than rdmaprov.boundary takes: one character too many shows that it was cut.
MOST_OUTPUT_CHARACTERS = 4 * 1024 * 1024 + 1


class ActionModule(ActionBase):
    """Gives the program to Python on the node as its standard input, so it writes no file there.

    Whatever the node prints, an event of Ansible's has a bounded part of it.
    """

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the program's exit status, output, and the end of its errors."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        python = str(self._task.args["python"])
        program = Path(self._task.args["program"]).read_bytes()
        words = ["python3"] if python.startswith("auto") else shlex.split(python)
        with limited_memory():
            done = ask_twice(
                self._connection,
                lambda: self._low_level_execute_command(shlex.join([*words, "-"]), in_data=program),
            )
        return {
            **result,
            "changed": False,
            "failed": done["rc"] != 0,
            "rc": done["rc"],
            "msg": f"python3 exited with status {done['rc']}",
            "stdout": done["stdout"][:MOST_OUTPUT_CHARACTERS],
            "stderr": clean(done["stderr"][-MOST_CHARACTERS:]),
        }
