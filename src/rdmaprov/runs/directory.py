"""The directory of a run: log and results, without secrets."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.problem import CONTROL, visible
from rdmaprov.runs.files import FULL, not_written, require_own, write_whole
from rdmaprov.runs.masks import Mask
from rdmaprov.surroundings import is_of_settings


def runs_directory() -> Path:
    """Return where runs are: RDMAPROV_RUNS (--runs), or runs/ in the working directory."""
    return Path(os.environ.get("RDMAPROV_RUNS") or "runs")


STAMP = "%Y%m%d-%H%M%S"  # how the name of a run begins
_INVISIBLE = re.compile(f"[{CONTROL}]")


def run_time(run: str) -> datetime:
    """Return when a run began, by its name; raise ValueError for a name of no run."""
    return datetime.strptime(run[:15], STAMP).astimezone()


class RunDirectory:
    """`<time>-<verb>/` in the directory of runs; only its user can read it.

    As a context it keeps the log open, which grows while Ansible or pytest runs. A file that cannot
    be written ends no run: `missed` has its error, and `require_all` raises it at the end.
    """

    def __init__(self, verb: str, mask: Mask, log: str = "ansible.log") -> None:
        self._mask = mask
        self.missed: dict[Path, OSError] = {}
        self.path = _make_directory(runs_directory(), f"{datetime.now():{STAMP}}-{verb}")
        mask.run = self.path
        (self.path / "logs").mkdir(mode=0o700)
        self._log_path = self.path / "logs" / log

    def __enter__(self) -> "RunDirectory":
        """Open the log."""
        self._log = os.open(
            self._log_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600
        )
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType
    ) -> None:
        """Close the log; a run that was refused leaves no directory, as it did not begin."""
        os.close(self._log)
        if isinstance(error, UsageError) or is_of_settings(error):
            shutil.rmtree(self.path)

    def log(self, text: str) -> None:
        """Add text to the log; after an error, add nothing more."""
        lines = _INVISIBLE.sub("", text.replace("\r\n", "\n")).rstrip("\n")
        if not lines or self._log_path in self.missed:
            return
        rest = (self._mask.text(lines) + "\n").encode(errors="replace")
        try:
            while rest:  # a disk that fills up takes a part
                rest = rest[os.write(self._log, rest) :]
        except OSError as error:
            self.missed[self._log_path] = error

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """Write another file, which the run needs."""
        write_whole(self.path / name, "".join(f"{line}\n" for line in lines))

    def write_text(self, name: str, text: str) -> Path | None:
        """Write another file, without secrets; return its path if that succeeds."""
        path = self.path / name
        try:
            write_whole(path, self._mask.text(text))
        except OSError as error:
            self.missed[path] = error
            return None
        self.missed.pop(path, None)
        return path

    def keep_log(self, name: str, text: str) -> Path | None:
        """Write a log beside the run's own; return its path if that succeeds."""
        return self.write_text(f"logs/{name}", visible(text))

    def write_results(self, results: Mapping[str, Any]) -> str:
        """Write results.json; return its text."""
        text = json.dumps(self._mask.data(results), indent=2, ensure_ascii=False) + "\n"
        text = visible(text, lambda each: f"\\u{ord(each):04x}")
        path = self.path / "results.json"
        try:
            write_whole(path, text)
        except OSError as error:
            self.missed[path] = error
        else:
            self.missed.pop(path, None)
        return text

    def require_all(self) -> None:
        """Raise NotWritten if a file is missing, which names each, and what to do."""
        if self.missed.keys() - {self.path / "report.html"}:
            raise not_written(self.missed, "run the same command again.")
        if self.missed:
            raise not_written(self.missed, f"run: rdmaprov report {self.path}")


def _make_directory(runs: Path, name: str) -> Path:
    """Create and return a directory; append a number if another run started in this second."""
    try:
        runs.mkdir(mode=0o700, exist_ok=True)
        require_own(runs)
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            path = runs / (name + suffix)
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return path
    except OSError as error:
        if error.errno in FULL:
            raise
        hint = "Name another directory for runs: --runs DIR, or RDMAPROV_RUNS=DIR"
        raise UsageError(f"{runs.absolute()}: {error.strerror}", hint) from error
    raise FileExistsError(17, "99 runs started in this second", str(runs / name))
