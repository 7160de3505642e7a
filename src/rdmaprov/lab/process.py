"""Starting programs, and long-lived ones that outlive the command that started them."""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError
from rdmaprov.lab.patience import limit_s

STOP_TIMEOUT_S = 10.0
ADOPT_TIMEOUT_S = 5.0

# The program records itself before it becomes what it is to be, so there is no moment in
# which it runs and nobody knows.
_RECORD_AND_EXEC = (
    'read -r stat < /proc/$$/stat; echo "$stat" > "$1.new"; mv "$1.new" "$1"; shift; exec "$@"'
)


class CommandError(RdmaprovError):
    """A program that the lab needs ended with an error."""


def run(
    argv: Sequence[str],
    *,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
    hint: str = "The lines above are the program's own.",
) -> str:
    """Return what a program printed; raise CommandError if it failed, or ran past timeout_s."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, **env} if env else None,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandError(f"{argv[0]} is not installed", "Run: make lab-tools") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{argv[0]} did not end within {timeout_s:.0f} s", hint) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise CommandError(f"{argv[0]} ended with {done.returncode}: {said}", hint)
    return done.stdout


def _identity(stat: str) -> tuple[int, int]:
    """Return process id and start time (clock ticks since boot) of a /proc/PID/stat line."""
    pid, _, rest = stat.partition(" ")
    return int(pid), int(rest.rpartition(")")[2].split()[19])


@dataclass(frozen=True)
class Daemon:
    """A program that runs on after its starter has ended, known by its record file.

    The record holds the program's own /proc/PID/stat line: process id and start time name
    one process for good, so a later process with the same id is never taken for it.
    """

    record: Path

    def pid(self) -> int | None:
        """Return the process id while the program runs, else None."""
        try:
            pid, started = _identity(self.record.read_text())
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (OSError, ValueError, IndexError):
            return None
        state = stat.rpartition(")")[2].split()[0]
        return pid if _identity(stat)[1] == started and state != "Z" else None

    def start(self, argv: Sequence[str], cwd: Path, log: Path) -> None:
        """Start argv, unless it runs already: started twice at once it runs once.

        Raises:
            CommandError: another start of it neither recorded itself nor went away.
        """
        lock = os.open(self.record.with_suffix(".alive"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not self._lock_or_adopt(lock):
                return
            with log.open("ab") as output:
                subprocess.Popen(
                    ["sh", "-c", _RECORD_AND_EXEC, "sh", str(self.record), *argv],
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=[lock],
                )
        finally:
            os.close(lock)

    def _lock_or_adopt(self, lock: int) -> bool:
        """Take the lock that a running program holds; False when it runs and is on record."""
        give_up = time.monotonic() + limit_s(ADOPT_TIMEOUT_S, self.record.parent)
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            if self.pid() is not None:
                return False
            if time.monotonic() > give_up:
                raise CommandError(
                    f"a program holds {self.record.with_suffix('.alive')} and is not recorded",
                    "See which with: fuser -v " + str(self.record.with_suffix(".alive")),
                )
            time.sleep(0.05)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the program if it runs: SIGTERM, then SIGKILL after timeout_s of a quiet machine."""
        longest_s = limit_s(timeout_s, self.record.parent)
        for sign in (signal.SIGTERM, signal.SIGKILL):
            pid = self.pid()
            if pid is None:
                break
            with suppress(ProcessLookupError):
                os.kill(pid, sign)
            self._wait_until_gone(longest_s)
        self.record.unlink(missing_ok=True)

    def _wait_until_gone(self, patience_s: float) -> None:
        give_up = time.monotonic() + patience_s
        while self.pid() is not None and time.monotonic() < give_up:
            time.sleep(0.02)
