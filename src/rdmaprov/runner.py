"""Run Ansible with ansible-runner."""

import os
import shlex
import shutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import ansible
from ansible import constants

from rdmaprov import tuning
from rdmaprov.errors import UsageError
from rdmaprov.interrupt import Interrupt
from rdmaprov.resources import collections_dir
from rdmaprov.surroundings import utf8_locale

# How often to look for a signal to stop.
_POLL_S = 1
_PROGRAM = "ansible-playbook"


def run_ansible(
    hosts: int = 0, beside: Callable[[Callable[[], int]], None] | None = None, **settings: object
) -> int:
    """Run Ansible with ansible-runner's settings and return its exit code.

    It runs in the working directory, as ansible-playbook does, so that ansible.cfg and relative
    names mean the same. The files of ansible-runner hold all variables and results; they are
    removed before this returns. A signal to stop ends Ansible (see Interrupt) and raises
    KeyboardInterrupt; ansible-runner alone would kill Ansible and keep the signal handlers.

    Args:
        hosts: the number of hosts, which limits the forks; 0 leaves the forks to Ansible.
        beside: runs at the same time, in a thread, and is given what counts the signals; with
            it and 0 hosts, Ansible runs nowhere else.
        settings: of ansible-runner; paths must be absolute.
    """
    import ansible_runner  # only where Ansible runs: verbs that run no playbook start without it

    path = _path_with_ansible()
    given = settings.pop("envvars", {})
    with (
        tempfile.TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as directory,
        tempfile.TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as own,
        Interrupt() as interrupt,
        ThreadPoolExecutor(1) as threads,
    ):
        other = threads.submit(beside or _nothing, lambda: interrupt.count)
        start = _nothing if beside and not hosts else ansible_runner.run
        runner = start(
            private_data_dir=directory,
            project_dir=str(Path.cwd()),
            envvars={
                "PATH": path,
                # Ansible's own setting: ansible-runner would turn host key checking off.
                "ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING),
                "ANSIBLE_STDOUT_CALLBACK": "",  # AWX's, within a job of it, would call itself
                "ANSIBLE_COLLECTIONS_PATH": ":".join(
                    [collections_dir(), *constants.COLLECTIONS_PATHS]
                ),
                **utf8_locale(),
                **tuning.environment(hosts, Path(own)),
                **interrupt.environment,
                **(given if isinstance(given, dict) else {}),
            },
            quiet=True,
            # Its copy of Ansible's output would hold secrets.
            settings={"pexpect_timeout": _POLL_S, "suppress_output_file": True},
            cancel_callback=interrupt.must_kill,
            **settings,
        )
        while not other.done():  # a signal comes in between
            wait([other], timeout=_POLL_S)
        other.result()
    if interrupt.count:
        raise KeyboardInterrupt
    return 0 if runner is None else int(runner.rc)


def _nothing(*_words: object, **_named: object) -> None:
    pass


def _path_with_ansible() -> str:
    """Return PATH with the directory of this Python's own Ansible first.

    It is beside this Python in a virtual environment; pip install --user and --target put it where
    their scripts are, which need not be in PATH.

    Raises:
        UsageError: it is in none of them.
    """
    package = Path(ansible.__file__).parents[1]
    places = [
        Path(sys.executable).parent,
        Path(sys.argv[0]).absolute().parent,
        Path(sysconfig.get_path("scripts")),
        Path(site.getuserbase(), "bin"),
        package / "bin",
    ]
    found = [str(place) for place in places if os.access(place / _PROGRAM, os.X_OK)]
    path = ":".join([*found[:1], os.environ.get("PATH", os.defpath)])
    if shutil.which(_PROGRAM, path=path) is None:
        raise UsageError(
            f"{_PROGRAM} is not installed beside {sys.executable}, and not in PATH",
            "Run: " + shlex.join([sys.executable, "-m", "pip", "install", "ansible-core"]),
        )
    return path
