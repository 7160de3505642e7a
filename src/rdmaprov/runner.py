"""Run Ansible with ansible-runner."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ansible import constants

from rdmaprov import tuning
from rdmaprov.interrupt import Interrupt

if TYPE_CHECKING:
    from ansible_runner import Runner

# How often to look for a signal to stop.
_POLL_S = 1


def run_ansible(hosts: int = 0, **settings: object) -> Runner:
    """Run Ansible with ansible-runner's settings and return its runner.

    It runs in the working directory, as ansible-playbook does, so that ansible.cfg and relative
    names mean the same. The files of ansible-runner hold all variables and results; they are
    removed before this returns. A signal to stop ends Ansible (see Interrupt) and raises
    KeyboardInterrupt; ansible-runner alone would kill Ansible and keep the signal handlers.

    Args:
        hosts: the number of hosts, which limits the forks; 0 leaves the forks to Ansible.
        settings: of ansible-runner; paths must be absolute.

    """
    import ansible_runner  # only where Ansible runs: verbs that run no playbook start without it

    given = settings.pop("envvars", {})
    with (
        tempfile.TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as directory,
        Interrupt() as interrupt,
    ):
        runner = ansible_runner.run(
            private_data_dir=directory,
            project_dir=str(Path.cwd()),
            envvars={
                # The ansible beside this Python comes first in PATH.
                "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
                # Ansible's own setting: ansible-runner would turn host key checking off.
                "ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING),
                **tuning.environment(hosts),
                **interrupt.environment,
                **(given if isinstance(given, dict) else {}),
            },
            quiet=True,
            # Its copy of Ansible's output would hold secrets.
            settings={"pexpect_timeout": _POLL_S, "suppress_output_file": True},
            cancel_callback=interrupt.must_kill,
            **settings,
        )
    if interrupt.count:
        raise KeyboardInterrupt
    return runner
