"""The machine itself with made-up wheels of torch, for the role torch_runtime."""

import shutil
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from plugins.module_utils.machine import Machine

# Environments without wheels, by what follows `python -m`: pip alone takes seconds.
MADE: dict[tuple[str, ...], tempfile.TemporaryDirectory[str]] = {}


class Real(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.ran: list[list[str]] = []

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        self.ran.append(argv)
        made = tuple(argv[argv.index("venv") : -1]) if "venv" in argv else ()
        if made in MADE:
            shutil.copytree(MADE[made].name, argv[-1], symlinks=True)
            return ""
        said = super().run(argv, stdin, timeout_s)
        if made:
            MADE[made] = tempfile.TemporaryDirectory()
            shutil.copytree(argv[-1], MADE[made].name, symlinks=True, dirs_exist_ok=True)
        return said

    @property
    def imports(self) -> int:
        return len([argv for argv in self.ran if "import torch" in argv[-1]])


def unpack(wheel: Path, environment: Path | str) -> None:
    """Have a wheel in an environment without pip, which costs seconds."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))


def wheel(directory: Path, version: str, name: str = "torch", **files: str) -> None:
    directory.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    modules = {
        "torch/__init__.py": f"__version__ = {version!r}\n",
        "torch/distributed.py": "def is_available():\n    return True\n",
    }
    members = {
        **(modules if name == "torch" else {f"{name}.py": ""}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **files,
    }
    record = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for member, text in {**members, f"{info}/RECORD": record}.items():
            archive.writestr(member, text)
