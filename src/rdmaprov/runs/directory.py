"""The directory of a run: log and results, without secrets."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.problem import CONTROL, visible
from rdmaprov.runs.masks import Mask

RUNS = "runs"
_INVISIBLE = re.compile(f"[{CONTROL}]")


class RunDirectory:
    """`runs/<time>-<verb>/` in the working directory; only its user can read it.

    As a context it keeps the log open, which grows while Ansible or pytest runs.
    """

    def __init__(self, verb: str, mask: Mask, log: str = "ansible.log") -> None:
        self._mask = mask
        self._log_name = log
        self.path = _make_directory(Path(RUNS), f"{datetime.now():%Y%m%d-%H%M%S}-{verb}")
        (self.path / "logs").mkdir(mode=0o700)

    def __enter__(self) -> RunDirectory:
        """Open the log."""
        self._log = _open_private(self.path / "logs" / self._log_name)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType
    ) -> None:
        """Close the log; a run that was refused leaves no directory, as it did not begin."""
        os.close(self._log)
        if isinstance(error, UsageError):
            shutil.rmtree(self.path)

    def log(self, text: str) -> None:
        """Add text to the log."""
        lines = _INVISIBLE.sub("", text.replace("\r\n", "\n")).rstrip("\n")
        if lines:
            with _name_in_errors(self.path / "logs" / self._log_name):
                os.write(self._log, (self._mask.text(lines) + "\n").encode(errors="replace"))

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """Write another file; it must not exist yet."""
        path = self.path / name
        with _name_in_errors(path), os.fdopen(_open_private(path), "w", encoding="utf-8") as opened:
            opened.writelines(f"{line}\n" for line in lines)

    def write_results(self, results: Mapping[str, Any]) -> str:
        """Write results.json completely or not at all; return its text."""
        text = json.dumps(self._mask.data(results), indent=2, ensure_ascii=False) + "\n"
        text = visible(text, _json_escape)
        path = self.path / "results.json"
        unfinished = path.with_suffix(".json.new")
        file = _open_private(unfinished)
        # A lone surrogate, which UTF-8 lacks, becomes the escape that JSON has for it.
        with (
            _name_in_errors(path),
            os.fdopen(file, "w", encoding="utf-8", errors="backslashreplace") as opened,
        ):
            opened.write(text)
        unfinished.replace(path)
        return text


def _json_escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


@contextmanager
def _name_in_errors(path: Path) -> Iterator[None]:
    """Add the file's name to an OSError, which lacks it when the disk is full."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _make_directory(runs: Path, name: str) -> Path:
    """Create and return a directory; append a number if another run started in this second."""
    runs.mkdir(mode=0o700, exist_ok=True)
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        path = runs / (name + suffix)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "99 runs started in this second", str(runs / name))


def _open_private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
