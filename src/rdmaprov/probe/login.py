"""ssh for Ansible: a login that an sshd dropped is tried again, a command never.

    python -I -S -c START PLACE MOST [ARGUMENTS OF SSH]     as `write_program` makes it

Ansible's own retries repeat whatever ended with 255, so a module that runs would run twice. Here
the connection that others share is opened first, with `true`, and only that is repeated. PLACE is a
directory of one run: how many logins may be under way at a time (see Window), and whose connections
are kept, of which MOST stay. Imports little: it starts for each of Ansible's commands.
"""

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rdmaprov.probe.window import SSH_FAILED, Window, is_dropped, waits_s

_LOOK_S = 0.05
# How long Ansible may pause between two pieces of a module, which it sends at once.
_QUIET_S = 0.5
_START = "import sys;sys.path.insert(0,{root!r});from rdmaprov.probe.login import main;main()"


def write_program(place: Path, most: int, opening: int) -> str:
    """Return the path of a program that Ansible can run in place of ssh; it is below `place`.

    Args:
        place: an empty directory of this run.
        most: connections that are kept.
        opening: logins at a time, at most.
    """
    import shlex

    root = str(Path(__file__).parents[2])
    words = [sys.executable, "-I", "-S", "-c", _START.format(root=root), place, most]
    (place / "window").write_text(_as_text(Window(min(opening, most))))
    (place / "kept").mkdir()
    program = place / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
    program.chmod(0o700)
    return str(program)


_ELSEWHERE = """\
#!/bin/sh
[ -d "${0%/*}/kept" ] || mkdir "${0%/*}/kept" 2>/dev/null
start='import sys;sys.path.insert(0,sys.argv[1]);from rdmaprov.probe.login import main;main()'
exec "$RDMAPROV_PYTHON" -I -S -c "$start" "${0%/*}" MOST "$@"
"""


def files_elsewhere(most: int, opening: int) -> dict[str, bytes]:
    """Return the files of such a program, `ssh`, for a directory of another machine.

    RDMAPROV_PYTHON must name a Python 3.9 or newer there. For the rest, see `write_program`.
    """
    own = [Path(__file__).with_name(f"{name}.py") for name in ("login", "window", "__init__")]
    return {
        "ssh": _ELSEWHERE.replace("MOST", str(most)).encode(),
        "window": _as_text(Window(min(opening, most))).encode(),
        "rdmaprov/__init__.py": b"",
        **{f"rdmaprov/probe/{path.name}": path.read_bytes() for path in own},
    }


def main() -> None:
    """Open the connection if there is none, and become ssh."""
    place, most, argv = Path(sys.argv[1]), int(sys.argv[2]), ["ssh", *sys.argv[3:]]
    path, parent = _control_path(argv), os.getppid()
    if path and "-O" not in argv and not _is_open(path):
        _end_oldest(place / "kept", most - 1)
        code, said = _open(place, parent, [*argv[:-1], "true"])
        if code == SSH_FAILED:
            os.write(2, said)
            _read_stdin()
            sys.exit(code)
        _end_with(parent)
    if path:
        (place / "kept" / path.name).write_text(str(path))
    os.execvp(argv[0], argv)  # noqa: S606 - it is ssh, with Ansible's own arguments


def _read_stdin() -> None:
    """Take what Ansible still sends: to a pipe without a reader, that would be its only error."""
    import select

    while select.select([0], [], [], _QUIET_S)[0] and os.read(0, 1 << 16):
        pass


def _control_path(argv: list[str]) -> Path | None:
    found = [word.partition("=")[2].strip('"') for word in argv if word.startswith("ControlPath=")]
    return Path(found[0]) if found and "%" not in found[0] else None


def _is_open(path: Path) -> bool:
    """Return whether a connection is there to be shared."""
    import socket

    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


def _open(place: Path, parent: int, argv: list[str]) -> tuple[int, bytes]:
    """Return how ssh ended that opens a connection, and what it said."""
    import subprocess

    waits = waits_s()
    while True:
        with _login(place, parent) as began, (place / f"said{os.getpid()}").open("w+b") as said:
            Path(said.name).unlink()  # a file: the kept connection would hold a pipe open
            code = subprocess.call(argv, stdin=-3, stdout=-3, stderr=said)
            said.seek(0)
            text = said.read(65536)
            dropped = code == SSH_FAILED and is_dropped(text.decode(errors="replace"))
            with _window(place) as window:
                window.shrink(began) if dropped else window.grow()
        wait_s = next(waits, None) if dropped else None
        if wait_s is None:
            return code, text
        time.sleep(wait_s)


@contextmanager
def _login(place: Path, parent: int) -> Iterator[int]:
    """Wait for one of the places of logins that are under way; provide the window's round."""
    while True:
        _end_with(parent)
        with _window(place) as window:
            allowed, began = window.allowed, window.round
        for number in range(allowed):
            with (place / f"login{number}").open("w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                yield began
                return
        time.sleep(_LOOK_S * (1 + os.urandom(1)[0] / 256))


@contextmanager
def _window(place: Path) -> Iterator[Window]:
    """Provide the window of a run, to this process alone, and keep what becomes of it."""
    with (place / "window").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        most, *rest = map(int, file.read().split())
        window = Window(most)
        window.allowed, window.well, window.round = rest
        yield window
        file.seek(0)
        file.truncate()
        file.write(_as_text(window))


def _as_text(window: Window) -> str:
    return f"{window.most} {window.allowed} {window.well} {window.round}"


def _end_with(parent: int) -> None:
    """End if Ansible's worker has: nobody is left to read the answer or write the input."""
    if os.getppid() != parent:
        sys.exit(SSH_FAILED)


def _end_oldest(kept: Path, most: int) -> None:
    """Have connections end that were used longest ago; a command that runs there goes on."""
    import subprocess

    files = sorted(kept.iterdir(), key=lambda file: file.stat().st_mtime)
    for file in files[: max(0, len(files) - most)]:
        argv = ["ssh", "-F", "none", "-o", f"ControlPath={file.read_text()}", "-O", "stop", "any"]
        subprocess.call(argv, stdin=-3, stdout=-3, stderr=-3)
        file.unlink(missing_ok=True)
