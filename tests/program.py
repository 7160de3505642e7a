"""The program, called as the function that it is, or started as its users start it.

A call is made in a fork of the test's process, which has imported all that verbs need. What the
program changes in its process ends with the fork: the working directory, signal handlers, limits,
streams, and the state of Ansible and pytest. So no call finds what another one left.
"""

import importlib
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pexpect
from tests.unit.helpers.shell import execute

from rdmaprov import cli, contract
from rdmaprov.inventory import load_site
from rdmaprov.probe.ansible_targets import Targets
from rdmaprov.resources import data_dir

TIMEOUT_S = 600
ARGV = (sys.executable, "-m", "rdmaprov")
Ended = subprocess.CompletedProcess[str]
_FORK = multiprocessing.get_context("fork")
_ANSIBLE = {name: value for name, value in os.environ.items() if name.startswith("ANSIBLE_")}


def start(*words: object, cwd: Path, stdin: str = "", **environment: str) -> Ended:
    """Return how the program ends as a process of its own, within `TIMEOUT_S`."""
    return execute(
        [*ARGV, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        input=stdin,
        timeout=TIMEOUT_S,
    )


def spawn(*words: object, cwd: Path, **environment: str) -> pexpect.spawn:
    return pexpect.spawn(
        ARGV[0],
        [*ARGV[1:], *map(str, words)],
        cwd=str(cwd),
        encoding="utf-8",
        timeout=120,
        env={**os.environ, **environment},
        # Whatever whoever started the tests had ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def call(*words: object, cwd: Path, stdin: str = "", **environment: str) -> Ended:
    """Return how the program's function ends, as `start` does; Ansible can get no settings here."""
    return call_main(cli.main, words, cwd, environment, stdin)


def call_main(
    main: Callable[[], object],
    words: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str],
    stdin: str = "",
) -> Ended:
    """Return how another program's function ends in the same way."""
    with ExitStack() as opened:
        given, out, error = (opened.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        streams = (given.fileno(), out.fileno(), error.fileno())
        code = ended(fork(words, cwd, streams, environment, main))
        for stream in (out, error):
            stream.seek(0)
        return Ended([*map(str, words)], code, out.read(), error.read())


def ended_here(capture: Any, *words: object) -> tuple[int, str, str]:
    """Return how the program's function ends in this process: exit code, output, errors."""
    code = cli.run([*map(str, words)])
    return code, *capture.readouterr()


def encrypt_variable(name: str, secret: str, password: Path) -> str:
    program = Path(sys.executable).with_name("ansible-vault")
    words = ["encrypt_string", "--vault-password-file", password, "--name", name, secret]
    return execute([program, *words], check=True).stdout


def finish(run: pexpect.spawn) -> tuple[int, str]:
    said = run.read()
    run.close()
    return run.exitstatus, said


def fork(
    words: Sequence[object],
    cwd: Path,
    streams: Sequence[int],
    environment: Mapping[str, str],
    main: Callable[[], object] = cli.main,
) -> ForkProcess:
    _refuse_settings(cwd, {**os.environ, **environment})
    _import_everything()
    argv = [cli.PROGRAM, *map(str, words)]
    process = _FORK.Process(target=_be_program, args=(argv, cwd, streams, environment, main))
    with warnings.catch_warnings():
        # Of Python 3.12: a fork lacks other threads. None holds what the program needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def ended(process: ForkProcess) -> int:
    """Return the exit code of a fork, minus the signal that ended it, within `TIMEOUT_S`."""
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(cli.PROGRAM, TIMEOUT_S)
    return process.exitcode


def _refuse_settings(cwd: Path, environment: Mapping[str, str]) -> None:
    """Raise an error for settings that come too late: Ansible is imported already."""
    named = {name: value for name, value in environment.items() if name.startswith("ANSIBLE_")}
    if named != _ANSIBLE or (cwd / "ansible.cfg").exists():
        raise ValueError("Ansible reads its settings when it is imported: use start() here")


@cache
def _import_everything() -> None:
    """Import what verbs import when they need it, once for all calls of this process."""
    for module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module("hypothesis.internal.observability")  # by its plugin, of each pytest
    fleet = load_site(data_dir("inventory") / "prod")  # imports Ansible's plugins
    contract.judge(fleet)
    node = fleet.nodes[0].name
    Targets().of(node, fleet.variables(node))


def _be_program(
    argv: list[str],
    cwd: Path,
    streams: Sequence[int],
    environment: Mapping[str, str],
    main: Callable[[], object],
) -> None:
    """Run the program on new streams, which have the encodings that Python would give them."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    own = sys.__stdout__
    encoding, errors = (own.encoding, own.errors) if own else ("utf-8", "strict")
    sys.stdin = open(0, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.update(environment)
    os.chdir(cwd)
    tempfile.tempdir = None  # TMPDIR may be another one
    sys.argv = argv
    main()
