"""Ansible, run by ansible-runner."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import ansible_runner
from ansible import constants

from rdmaprov import tuning
from rdmaprov.interrupt import Interrupt

# How often a wish to stop is looked at.
_POLL_S = 1


def run_ansible(hosts: int = 0, **settings: object) -> ansible_runner.Runner:
    """Run Ansible with ansible-runner's settings and return its runner.

    It runs in the working directory, as ansible-playbook would, so that ansible.cfg and relative
    names mean the same. What ansible-runner writes has all variables and results in it; it is
    gone when this returns. Signals to stop it do so (see Interrupt) and raise
    KeyboardInterrupt: ansible-runner alone would kill it, and keep the signals.

    Args:
        hosts: how many there are, for the number of forks; 0 leaves it to Ansible.
        settings: ansible-runner's; paths must be absolute.

    """
    given = settings.pop("envvars", {})
    with (
        tempfile.TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as directory,
        Interrupt() as interrupt,
    ):
        runner = ansible_runner.run(
            private_data_dir=directory,
            project_dir=str(Path.cwd()),
            envvars={
                # The ansible that is installed beside this Python, whatever PATH says.
                "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
                # As Ansible has it: ansible-runner would turn host keys' checking off.
                "ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING),
                **tuning.environment(hosts),
                **interrupt.environment,
                **(given if isinstance(given, dict) else {}),
            },
            quiet=True,
            # Its copy of what Ansible prints would have secrets in it.
            settings={"pexpect_timeout": _POLL_S, "suppress_output_file": True},
            cancel_callback=interrupt.must_kill,
            **settings,
        )
    if interrupt.count:
        raise KeyboardInterrupt
    return runner
