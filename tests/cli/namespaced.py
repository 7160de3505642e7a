"""Nodes that are this machine, with directories of a test in the place of some of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.program import call
from tests.unit.helpers.ssh_node import PASSED_ON

STATE = "/var/lib/rdmaprov"  # where a node keeps what is replaced; no test writes this machine's
HOSTS = """\
---
nodes:
  hosts: {hosts}
  vars: {{ansible_connection: local, ansible_python_interpreter: {python}}}
"""


needs_namespace = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0,
    reason="a role needs root, and a node on this machine a mount namespace",
)


def hosts(directory: Path, named: str, mounts: Mapping[str, str]) -> str:
    """Make the nodes' Python, which hides the `mounts` by those of `node`; return hosts.yml."""
    (directory / "node/state").mkdir(parents=True, exist_ok=True)
    binds = f"mkdir -p {STATE} && mount --bind state {STATE} && "
    binds += "".join(f"mount --bind {own} {hidden} && " for own, hidden in mounts.items())
    python = directory / "python"
    # No sshd passes them on.
    kept = "".join(f"export {name}={os.environ.get(name, '')}\n" for name in PASSED_ON)
    python.write_text(
        f"#!/bin/sh\n{kept}exec unshare --mount sh -c '\ncd {directory / 'node'} && {binds}"
        f'exec {sys.executable} "$@"\' sh "$@"\n'
    )
    python.chmod(0o700)
    return HOSTS.format(hosts=named, python=python)


def save(directory: Path) -> Callable[[], None]:
    """Return what puts a directory back as it is now, in its place, which its site names."""
    copy = directory.with_name(f"{directory.name}.saved")
    subprocess.run(["cp", "-a", directory, copy], check=True)

    def restore() -> None:
        shutil.rmtree(directory)
        subprocess.run(["cp", "-a", copy, directory], check=True)

    return restore


def rdmaprov(directory: Path, *words: str) -> tuple[int, str]:
    done = call(*words, cwd=directory)
    return done.returncode, done.stdout + done.stderr
