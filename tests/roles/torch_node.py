"""Made-up nodes with a Python that has torch: in an environment, or in an image."""

import json
import sys
from pathlib import Path
from typing import Any

from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine, given

PYTHON = "/usr/bin/python3"
PACKAGES = "lib/python3/site-packages"
IMAGE = f"registry.example.com/torch@sha256:{'a' * 64}"


def arguments(**changed: object) -> dict[str, Any]:
    return given("torch_runtime", **{"python": sys.executable, **changed})


class TorchNode(FakeMachine):
    """A node whose Python makes environments.

    Of a package only its RECORD is there, which pip writes anew with each installation.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.put(PYTHON)

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 0) -> str:  # noqa: ARG002
        self.ran.append(" ".join(argv))
        program, *words = argv
        if words[:2] == ["-m", "venv"]:
            self._create(Path(words[-1]))
        elif words[:3] == ["-m", "pip", "install"]:
            self._install(Path(program).parents[1], Path(words[-1]))
        elif "distribution(name)" in words[2]:
            return json.dumps(self._found(program, words[3:]))
        elif "import torch" in words[2]:
            return self._found(program, ["torch"])["torch"][0]
        return ""

    def _create(self, place: Path) -> None:
        (place / "bin").mkdir(parents=True)
        (place / "bin/python3").touch()

    def _install(self, place: Path, requirements: Path) -> None:
        for line in requirements.read_text().splitlines():
            name, version = line.split("==")
            record = place / PACKAGES / f"{name}-{version}.dist-info" / "RECORD"
            record.parent.mkdir(parents=True)
            record.write_text(f"{name}/__init__.py,,\n")

    def _found(self, program: str, names: list[str]) -> dict[str, tuple[str, str]]:
        packages = f"{program.removesuffix('/bin/python3')}/{PACKAGES}"
        found = {}
        for directory in self.names(packages):
            name, _, version = directory.removesuffix(".dist-info").partition("-")
            if name in names and self.names(f"{packages}/{directory}"):
                found[name] = (version, f"{packages}/{directory}")
        return found


class ImageNode(FakeMachine):
    """A node with podman, which remembers what it pulled."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.images: list[str] = []
        self.programs = {"podman image inspect": self._inspect, "podman pull": self._pull}

    def _inspect(self, argv: list[str]) -> str:
        if argv[-1] not in self.images:
            raise CommandFailed(argv, 125, f"Error: {argv[-1]}: image not known")
        return "sha256:1"

    def _pull(self, argv: list[str]) -> str:
        self.images.append(argv[-1])
        return argv[-1]
