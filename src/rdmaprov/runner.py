"""Ansible, run by ansible-runner."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import ansible_runner
from ansible import constants


def run_ansible(**settings: object) -> ansible_runner.Runner:
    """Run Ansible with ansible-runner's settings and return its runner.

    An interrupt ends Ansible and raises KeyboardInterrupt: ansible-runner alone would take SIGINT
    and SIGTERM for itself, and keep them for the rest of the program.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        runner = ansible_runner.run(
            envvars={
                # The ansible that is installed beside this Python, whatever PATH says.
                "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
                # As Ansible has it: ansible-runner would turn host keys' checking off.
                "ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING),
            },
            quiet=True,
            **settings,
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if runner.status == "canceled":
        raise KeyboardInterrupt
    return runner
