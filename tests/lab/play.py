"""One role on one node of the lab, by a plain ansible-playbook."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lab.handle import LabHandle

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 900
# A module that starts says the first; if none can start, the survey says the second.
DISK_FULL = re.compile(r"No space left on device|is its disk full\?")


class Play:
    """playbooks/apply.yml for a role, on a copy of the lab's site with the lab's own variables."""

    def __init__(self, lab: LabHandle, directory: Path, role: str, node: str) -> None:
        self.lab = lab
        self.site = lab.copy_site(directory)
        self.role = role
        self.node = node
        self.said = ""

    def run(self, variables: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        """Return how ansible-playbook ended; `said` has what it printed."""
        program = Path(sys.executable).with_name("ansible-playbook")
        more = json.dumps({**variables, "apply_roles": [self.role]})
        options = ["-v", "-i", str(self.site), "--limit", self.node, "-e", more, *words]
        done = subprocess.run(
            [program, *options, ROOT / "playbooks" / "apply.yml"],
            env={**os.environ, "ANSIBLE_PIPELINING": "1", "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.lab.limit_s(TIMEOUT_S),
            check=False,
        )
        self.said = done.stdout + done.stderr
        return done

    def changes(self, variables: dict[str, Any]) -> bool:
        done = self.run(variables)
        assert done.returncode == 0, self.said
        found = re.search(r"^\S+\s+: ok=\d+\s+changed=(\d+)", done.stdout, re.M)
        assert found, self.said
        return found[1] != "0"
