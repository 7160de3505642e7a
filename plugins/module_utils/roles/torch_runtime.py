"""The Python with torch in which the acceptance runs. Runs on the node.

A virtual environment is made whole or not at all. It has its own path in its scripts, so it cannot
be built beside and renamed: there are two places, and a link to the one that is in use; the other
one is built, proven, and linked.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from typing import Any

from .. import packages
from ..machine import CommandFailed, Machine, NodeError
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused
from ..torch import proof
from ..torch.proof import Pin

# A CUDA build and what it depends on are 3 GB.
INSTALL_TIMEOUT_S = 3600
PULL_TIMEOUT_S = 3600
_ABSENT = re.compile(r"no such (image|object)|image not known", re.IGNORECASE)
_IMAGE = re.compile(r"[a-z0-9][\w./:-]*(:[\w.-]+|@sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class Source:
    """Where packages come from."""

    index_url: str  # empty for pip's own
    wheelhouse: str  # a directory with all wheels, in place of an index; empty for none


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
        pip = _pip(plan, python, source)
        wanted = " ".join(f"{pin.name}=={pin.version}" for pin in pins)
        change = Change(CONFIGURED, directory, "packages", wrong, wanted)
        plan.add(change, lambda: _build(machine, directory, python, pins, source, pip))
        plan.is_long = True


def _pip(plan: Plan, python: str, source: Source) -> str:
    """Return the wheelhouse's pip, which runs as it is; empty for the one that Python brings."""
    machine = plan.machine
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
        _plan_ensurepip(plan, python, error)
    return ""


def _plan_ensurepip(plan: Plan, python: str, why: CommandFailed) -> None:
    """Have the package of Debian and Ubuntu with what their own Python lacks."""
    own = re.match(r"python3\.\d+$", os.path.basename(os.path.realpath(plan.machine.path(python))))
    if not own or not python.startswith("/usr/bin/") or not plan.machine.has("apt-get"):
        raise Refused(
            f"{python} cannot create virtual environments ({why.output.splitlines()[-1]}); "
            "install its ensurepip, or put pip's wheel into torch_runtime_wheelhouse"
        ) from why
    manager, package = packages.of(plan.machine), f"{own.group()}-venv"

    def install() -> None:
        offers = manager.distribution([package])
        if not offers:
            raise NodeError(f"no repository of the node has {package}; add the distribution's own")
        manager.change([], offers[:1])

    plan.add(Change(CONFIGURED, package, "package", "absent", "installed"), install)


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
        raise NodeError(f"{place}: pip: {_reason(error.output)}") from error
    finally:
        machine.remove(requirements)


def _reason(said: str) -> str:
    """Return why pip failed: which index it lost or left out, before what it did not find then."""
    lost = re.search(r"connection broken by '(.*)': /", said)
    if lost:
        why = re.sub(r"<[^<>]*>[:,]? ?", "", lost.group(1))[:200]
        return (
            f"no connection to the index: {why}. Name an index that the node reaches "
            "(torch_runtime_index_url), or copy the wheels to it (torch_runtime_wheelhouse): "
            "docs/production.md"
        )
    if found := re.search(r"The repository located at (\S+) is not a trusted or secure host", said):
        return (
            f"it does not trust {found.group(1)}, which has no https. Serve the index by https, or "
            f"write on the node, in /etc/pip.conf: [global] trusted-host = {found.group(1)}"
        )
    lines = [line for line in said.splitlines() if line.startswith("ERROR:")]
    return (lines or said.splitlines() or ["no message"])[0].replace("ERROR: ", "")


def _link(machine: Machine, directory: str, to: str) -> None:
    temporary = machine.path(directory) + ".new"
    if os.path.islink(temporary):
        os.unlink(temporary)
    os.symlink(os.path.basename(to), temporary)
    os.replace(temporary, machine.path(directory))


def _remove(machine: Machine, place: str) -> None:
    if os.path.isdir(machine.path(place)):
        shutil.rmtree(machine.path(place))


def image(plan: Plan, tool: str, name: str) -> None:
    """Have an image on the node.

    Raises:
        Refused: it is not pinned, or the tool is not there.
        NodeError: the tool cannot tell.
    """
    if tool not in ("docker", "podman"):
        raise Refused(
            f"torch_runtime_container_tool: rdmaprov does not pull images for {tool}; write "
            "docker or podman, or torch_runtime_kind: none and copy the image to the node"
        )
    if not _IMAGE.fullmatch(name) or name.endswith(":latest"):
        raise Refused(f"torch_runtime_image: '{name}' is not pinned; write NAME@sha256:DIGEST")
    if not plan.machine.has(tool):
        raise Refused(f"torch_runtime_container_tool: {tool} is not installed; install it")
    if not _is_there(plan.machine, tool, name):
        change = Change(CONFIGURED, tool, name, "absent", "present")
        plan.add(change, lambda: _pull(plan.machine, tool, name))
        plan.is_long = True


def _is_there(machine: Machine, tool: str, name: str) -> bool:
    try:
        machine.run([tool, "image", "inspect", "--format", "{{.Id}}", name])
    except CommandFailed as error:
        if _ABSENT.search(error.output):
            return False
        raise
    return True


def _pull(machine: Machine, tool: str, name: str) -> None:
    machine.run([tool, "pull", "--quiet", name], timeout_s=PULL_TIMEOUT_S)


def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
    """Return what must change for the node to have the site's torch."""
    plan = Plan(machine)
    kind = arguments["kind"]
    if kind == "none":
        return plan
    if kind == "container":
        image(plan, arguments["container_tool"], arguments["image"])
        return plan
    _require_paths(arguments)
    wanted = proof.parse(arguments["requirements"], "torch_runtime_requirements")
    if kind == "interpreter":
        if machine.is_image:
            return plan  # nothing of it is changed, and it may be on a disk of the node
        proof.interpreter(plan, arguments["python"], wanted)
        return plan
    if "torch" not in [pin.name for pin in wanted]:
        raise Refused("torch_runtime_requirements: torch is not among them; write torch==VERSION")
    if arguments["index_url"] and arguments["wheelhouse"]:
        raise Refused(
            "torch_runtime_wheelhouse: torch_runtime_index_url is set too; remove one of them"
        )
    source = Source(arguments["index_url"], arguments["wheelhouse"])
    directory = arguments["directory"].rstrip("/")
    environment(plan, directory, arguments["python"], wanted, source)
    return plan


def _require_paths(arguments: dict[str, Any]) -> None:
    for name in ("python", "directory", "wheelhouse"):
        if arguments[name] and not arguments[name].startswith("/"):
            raise Refused(f"torch_runtime_{name}: '{arguments[name]}' is not an absolute path")
    if arguments["index_url"].split() not in ([], [arguments["index_url"]]):
        raise Refused("torch_runtime_index_url: there is a blank in it; write one address")
