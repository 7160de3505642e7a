"""A made-up node behind a real testinfra Host: a tree of files, and programs that answer.

Commands run in a real shell with the real grep, find, od and so on, on paths of the tree. A program
that would need hardware is a script that prints what was put down for its arguments.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

# What a made-up node has in the place of programs; add.sh is a part of some.
_PROGRAMS = {path.stem: path.read_text() for path in Path(__file__).parent.glob("programs/*.sh")}
_LIKE = {"ib_write_bw": "traffic", "rping": "traffic", "ibv_rc_pingpong": "traffic"}


def script(name: str) -> str:
    own = "python" if name.startswith("/") else _LIKE.get(name, name)
    return _PROGRAMS.get(own, _PROGRAMS["answers"]).replace("# @ADD@\n", _PROGRAMS["add"])


_PATHS = re.compile(
    r"(?<![\w.])/(?=(?:sys|proc|etc|boot|run|var|lib|usr|opt|root|home|dev/shm|dev/nvidia-caps-\S+)/)"
)
_SHELL_TOOLS = ("/usr/bin", "/bin")
# A builtin of the shell.
_ULIMIT = 'ulimit() { sed -n "s/^$1 //p" "$ROOT/.answers/ulimit"; }; '


class FakeBackend(BaseBackend):  # type: ignore[misc] # testinfra has no types
    """testinfra's way to a made-up node; `known` commands gave that on a node like this one."""

    NAME = "fake"

    def __init__(self, root: Path, known: Mapping[str, CommandResult] | None = None) -> None:
        super().__init__(root.name)
        self.root = root
        self.known = dict(known or {})
        self.ran: list[str] = []
        self.asked: set[str] = set()

    def run(self, command: str, *args: str, fresh: bool = False, **_: Any) -> CommandResult:
        text = self.get_command(command, *args)
        self.asked.add(text)
        if fresh or text not in self.known:
            self.known[text] = self._run(text)
            self.ran.append(text)
        return self.known[text]

    def _run(self, text: str) -> CommandResult:
        root = str(self.root)
        path = os.pathsep.join([f"{root}/.bin", *_SHELL_TOOLS])
        done = subprocess.run(
            ["/bin/sh", "-c", _ULIMIT + _PATHS.sub(f"{root}/", text)],
            env={"PATH": path, "ROOT": root, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        out, err = (each.replace(root.encode(), b"") for each in (done.stdout, done.stderr))
        return self.result(done.returncode, text.encode(), out, err)


class FakeNode:
    """The tree of a made-up node, to be filled and altered."""

    def __init__(self, root: Path, *, is_copy: bool = False) -> None:
        self.root = root
        self.is_copy = is_copy
        self.touched: list[str] = []

    def host(self, known: Mapping[str, CommandResult] | None = None) -> Host:
        return Host(FakeBackend(self.root, known))

    def like(self, root: Path) -> FakeNode:
        shutil.copytree(self.root, root, symlinks=True, copy_function=os.link)
        return FakeNode(root, is_copy=True)

    def put(self, path: str, text: str | bytes = "") -> None:
        file = self._at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write(file, text if isinstance(text, bytes) else text.encode())

    def put_all(self, place: str, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self.put(f"{place}/{name}", value + "\n")

    def link(self, path: str, target: str) -> None:
        file = self._at(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        parent = Path("/") / file.parent.resolve().relative_to(self.root.resolve())
        file.symlink_to(os.path.relpath(target, parent))

    def remove(self, path: str) -> None:
        file = self._at(path)
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()

    def replace(self, path: str, old: str, new: str) -> None:
        text = self._at(path).read_text()
        assert old in text, f"{path} has no {old!r}"
        self.put(path, text.replace(old, new))

    def replace_all(self, path: str, old: str, new: str) -> None:
        file = self._at(path)
        self._write(file, file.read_text().replace(old, new).encode())

    def files_with(self, text: str) -> list[str]:
        files = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        mark = text.encode()
        return [f"/{path.relative_to(self.root)}" for path in files if mark in path.read_bytes()]

    def rename(self, path: str, new: str) -> None:
        self._at(path).rename(self._at(new))

    def rename_all(self, old: str, new: str) -> None:
        for path in sorted(self.root.rglob(f"*{old}*"), key=lambda each: -len(each.parts)):
            if path.is_symlink():
                target = path.readlink().as_posix()
                path.unlink()
                path.with_name(path.name.replace(old, new)).symlink_to(target.replace(old, new))
            else:
                path.rename(path.with_name(path.name.replace(old, new)))

    def answer(self, command: str, out: str, err: str = "", rc: int = 0) -> None:
        program, _, arguments = command.partition(" ")
        file = f"/.answers/{program}/{arguments.replace(' ', '_').replace('/', '_')}"
        self.put(file, out)
        for name, text in (("err", err), ("rc", str(rc) if rc else "")):
            if text:
                self.put(f"{file}:{name}", text)
        self.program(program)

    def program(self, name: str) -> None:
        path = name if name.startswith("/") else f"/.bin/{name}"
        if not self._at(path).exists():
            self.put(path, script(name))
            self._at(path).chmod(stat.S_IRWXU)

    def shown(self, command: str) -> dict[str, Any]:
        program, _, arguments = command.partition(" ")
        file = f"/.answers/{program}/{arguments.replace(' ', '_').replace('/', '_')}"
        value: dict[str, Any] = json.loads(self._at(file).read_text())
        return value

    def executable(self, path: str) -> None:
        if path.startswith("/.bin/"):
            self._at(path).chmod(stat.S_IRWXU)

    def unit(self, name: str, **properties: str) -> None:
        given = {
            "Id": name,
            "LoadState": "loaded",
            "ActiveState": "active",
            "MainPID": "0",
            "UnitFileState": "enabled",
            "NeedDaemonReload": "no",
            "LimitMEMLOCK": "infinity",
            "LimitMEMLOCKSoft": "infinity",
            **properties,
        }
        self.put(f"/.answers/units/{name}", "".join(f"{k}={v}\n" for k, v in given.items()))
        self.program("systemctl")

    def _write(self, file: Path, data: bytes) -> None:
        """Write a file: anew with its mode, where the one that is there is another node's, too."""
        mode = 0
        if self.is_copy and file.exists():
            file = file.resolve()
            mode = file.stat().st_mode
            file.unlink()
        file.write_bytes(data)
        if mode:
            file.chmod(mode)

    def _at(self, path: str) -> Path:
        self.touched.append(path)
        return self.root / path.lstrip("/")
