"""A virtual environment with torch, whole or not at all. Runs on the node.

An environment has its own path in its scripts, so it cannot be built beside and renamed. There
are two places, and a link to the one that is in use; the other one is built, proven, and linked.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from ..machine import CommandFailed, Machine, NodeError
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused
from . import proof
from .pins import Pin

# A CUDA build and what it depends on are 3 GB.
INSTALL_TIMEOUT_S = 3600


@dataclass(frozen=True)
class Source:
    """Where packages come from.

    Args:
        index_url: empty for pip's own.
        wheelhouse: a directory with all wheels, in place of an index; empty for none.
    """

    index_url: str
    wheelhouse: str


def environment(plan: Plan, directory: str, python: str, pins: list[Pin], source: Source) -> None:
    """Have a virtual environment with these packages, in which torch was imported.

    Raises:
        Refused: something else is in its place, or it cannot be made.
    """
    machine = plan.machine
    access = machine.access(directory)
    if access is not None and not access.is_link:
        raise Refused(
            f"torch_runtime_directory: {directory} exists, but rdmaprov did not create it; move it "
            "away, or write torch_runtime_kind: interpreter"
        )
    own = f"{directory}/bin/python3"
    wrong = proof.is_right(machine, own, pins) if machine.exists(own) else "absent"
    if wrong == "not verified":
        change = Change(RUNNING, own, "torch", wrong, "imported")
        plan.add(change, lambda: proof.prove(machine, own, pins))
        return
    if wrong:
        pip = _pip(machine, python, source)
        wanted = " ".join(f"{pin.name}=={pin.version}" for pin in pins)
        change = Change(CONFIGURED, directory, "packages", wrong, wanted)
        plan.add(change, lambda: _build(machine, directory, python, pins, source, pip))


def _pip(machine: Machine, python: str, source: Source) -> str:
    """Return the wheelhouse's pip, which runs as it is; empty for the one that Python brings."""
    if not machine.exists(python):
        raise Refused(f"torch_runtime_python: there is no {python}; install it, or write another")
    if source.wheelhouse and not machine.exists(source.wheelhouse):
        raise Refused(f"torch_runtime_wheelhouse: there is no {source.wheelhouse}; copy it there")
    wheels = [
        name
        for name in machine.names(source.wheelhouse or "/nowhere")
        if name.startswith("pip-") and name.endswith(".whl")
    ]
    if wheels:
        return f"{source.wheelhouse}/{wheels[-1]}"
    try:
        machine.run([python, "-I", "-c", "import venv, ensurepip"])
    except CommandFailed as error:
        raise Refused(
            f"{python} cannot create virtual environments ({error.output.splitlines()[-1]}); "
            "run on the node: apt-get install python3-venv; "
            "or put pip's wheel into torch_runtime_wheelhouse"
        ) from error
    return ""


def _build(
    machine: Machine, directory: str, python: str, pins: list[Pin], source: Source, pip: str
) -> None:
    """Build in the place that is not linked, then link it: what is linked is whole."""
    places = [f"{directory}.a", f"{directory}.b"]
    link = machine.path(directory)
    used = os.path.basename(os.readlink(link)) if os.path.islink(link) else ""
    new, old = places if used == os.path.basename(places[1]) else reversed(places)
    _remove(machine, new)
    try:
        _install(machine, new, python, pins, source, pip)
        proof.prove(machine, f"{new}/bin/python3", pins)
    except BaseException:
        _remove(machine, new)  # gigabytes, of no use
        raise
    _link(machine, directory, new)
    proof.remember(machine, f"{directory}/bin/python3", pins)
    _remove(machine, old)


def _install(
    machine: Machine, place: str, python: str, pins: list[Pin], source: Source, pip: str
) -> None:
    without = ["--without-pip"] if pip else []
    machine.run([python, "-m", "venv", *without, machine.path(place)])
    requirements = f"{place}/requirements.txt"
    lines = [f"--index-url {source.index_url}"] if source.index_url else []
    # Not on a command line, and for root alone: an index's address may have a password.
    text = "".join(line + "\n" for line in [*lines, *(pin.line for pin in pins)])
    machine.write(requirements, text, 0o600)
    own = machine.path(f"{place}/bin/python3")
    runs = [own, f"{machine.path(pip)}/pip"] if pip else [own, "-m", "pip"]
    if source.wheelhouse:
        # What else pip is told of on the node, such as find-links, is not the wheelhouse.
        runs = ["env", "PIP_CONFIG_FILE=/dev/null", *runs, "--isolated"]
    options = ["--no-input", "--disable-pip-version-check", "--no-cache-dir", "--quiet"]
    if any(pin.hashed for pin in pins):
        options.append("--require-hashes")
    if source.wheelhouse:
        options += ["--no-index", "--find-links", machine.path(source.wheelhouse)]
    words = [*runs, "install", *options, "--requirement", machine.path(requirements)]
    try:
        machine.run(words, timeout_s=INSTALL_TIMEOUT_S)
    except CommandFailed as error:
        lines = [line for line in error.output.splitlines() if line.startswith("ERROR:")]
        said = (lines or error.output.splitlines() or ["no message"])[0]
        raise NodeError(f"{place}: pip: {said.replace('ERROR: ', '')}") from error
    finally:
        machine.remove(requirements)


def _link(machine: Machine, directory: str, to: str) -> None:
    temporary = machine.path(directory) + ".new"
    if os.path.islink(temporary):
        os.unlink(temporary)
    os.symlink(os.path.basename(to), temporary)
    os.replace(temporary, machine.path(directory))


def _remove(machine: Machine, place: str) -> None:
    if os.path.isdir(machine.path(place)):
        shutil.rmtree(machine.path(place))
