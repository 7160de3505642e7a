"""What a linter says of shell scripts."""

from __future__ import annotations

import subprocess
from pathlib import Path


def shellcheck(*scripts: Path, leave_out: str = "") -> str:
    """Return what shellcheck finds in scripts of POSIX sh: all in one start, which costs most."""
    options = [f"--exclude={leave_out}"] if leave_out else []
    argv: list[str | Path] = ["shellcheck", "--shell=sh", *options, *scripts]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # it could not read one
    return done.stdout
