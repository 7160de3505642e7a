"""The Python with torch that acceptance runs; acceptance verifies that it imports."""

import shlex

import pytest
from testinfra.host import Host

from rdmaprov.facts import software
from rdmaprov.facts.text import read_files, run_program
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, Setting, not_applicable

pytestmark = pytest.mark.state

_VARIABLE = "torch_runtime_requirements"


def test_packages_are_the_sites(host: Host, node: Node) -> None:
    """The Python has torch, and each pinned package in its version."""
    python = _python(node)
    wanted = _pins(node)
    names = tuple(sorted({"torch", *wanted}))
    _require_there(host, node, python)
    seen = software.python_packages(host, python, names)
    for name in names:
        version, pin = seen[name], wanted.get(name)
        if version is None or (pin is not None and not software.is_version(version, pin)):
            Setting(node, python, name, _VARIABLE, where=f"{python} -m pip list").reject(
                version, pin or "any version"
            )


def test_environment_is_whole(host: Host, node: Node) -> None:
    """The virtual environment exists, now and after a reboot."""
    if node.get("torch_runtime_kind") != "venv":
        not_applicable(f"torch_runtime_kind: {node.get('torch_runtime_kind')}")
    directory = node.get("torch_runtime_directory").rstrip("/")
    configuration = f"{directory}/pyvenv.cfg"
    seen = read_files(host, configuration).get(configuration)
    name = "virtual environment"
    setting = Setting(node, directory, name, "torch_runtime_directory", configuration, AFTER_REBOOT)
    setting.require("absent" if seen is None else "present", "present")


def test_image_is_present(host: Host, node: Node) -> None:
    """The container tool has the site's image."""
    if node.get("torch_runtime_kind") != "container":
        not_applicable(f"torch_runtime_kind: {node.get('torch_runtime_kind')}")
    tool, image = node.get("torch_runtime_container_tool"), node.get("torch_runtime_image")
    if tool not in ("docker", "podman"):
        not_applicable(f"images of {tool} are files, which the site provides")
    command = f"{tool} image inspect --format '{{{{.Id}}}}' {shlex.quote(image)}"
    if run_program(host, command).rc != 0:
        name = f"image {image}"
        setting = Setting(node, tool, name, "torch_runtime_image", f"{tool} image inspect {image}")
        setting.reject(None, "present")


def _python(node: Node) -> str:
    python = software.python_of(node)
    if not python:
        not_applicable(f"torch_runtime_kind: {node.get('torch_runtime_kind')}")
    return python


def _require_there(host: Host, node: Node, python: str) -> None:
    if not software.is_program(host, python):
        Setting(node, python, "Python", "torch_runtime_kind", where=f"ls -l {python}").reject(
            None, "with torch"
        )


def _pins(node: Node) -> dict[str, str]:
    """Return the version that the site pins of each package, by its normal name (PEP 503)."""
    found = {}
    for line in node.get(_VARIABLE):
        name, _, version = line.partition("--hash")[0].strip().partition("==")
        found[name.partition("[")[0].strip().lower().replace("_", "-")] = version.strip()
    return found
