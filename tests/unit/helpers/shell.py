"""Programs that tests run: how they end, and what a linter says of shell scripts."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def shellcheck(*scripts: Path, leave_out: str = "") -> str:
    """Return what shellcheck finds in scripts of POSIX sh: all in one start, which costs most."""
    options = [f"--exclude={leave_out}"] if leave_out else []
    argv: list[str | Path] = ["shellcheck", "--shell=sh", *options, *scripts]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # it could not read one
    return done.stdout


def execute(argv: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True, "text": True, "check": False, **options}
    if "input" not in options:  # ssh leaves a worker's own non-blocking, which Ansible refuses
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in argv], **options)
