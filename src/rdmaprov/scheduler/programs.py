"""The programs of a scheduler: started without a shell, and their answers."""

import os
import re
import subprocess
from collections.abc import Sequence

from rdmaprov.errors import UnreachableError
from rdmaprov.problem import printable

ASK_S = 30  # slurmctld's own limit for a message is 10 s [slurm.conf, MessageTimeout]
_MOST_REASON = 300  # characters
_BESIDE = 8192  # bytes for a program's other words, their pointers and the loader's; our choice
# Of the user's own job or shell: they change what Slurm's commands do, beside their options.
_OTHERS = re.compile(r"(SLURM|SALLOC|SBATCH|SRUN|SQUEUE|SINFO|SCONTROL)_(?!CONF$)")


class SchedulerError(UnreachableError):
    """The scheduler gave no answer that can be used, so the state of its nodes is unknown."""


def other_settings() -> list[str]:
    """Return the variables of this process that would steer Slurm's commands beside our options."""
    return [name for name in os.environ if _OTHERS.match(name)]


def environment() -> dict[str, str]:
    """Return this process's environment without them."""
    left_out = other_settings()
    return {name: text for name, text in os.environ.items() if name not in left_out}


def most_bytes() -> int:
    """Return how many bytes one word of a command may have beside the rest of it.

    The kernel takes 32 pages in one word, and SC_ARG_MAX in all words and variables, each with its
    end and its pointer [execve(2); Linux include/uapi/linux/binfmts.h, MAX_ARG_STRLEN].
    """
    variables = sum(len(name) + len(text) + 10 for name, text in os.environb.items())
    alone, total = 32 * os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_ARG_MAX")
    return min(alone, total - variables) - _BESIDE


def ask(argv: Sequence[str], hint: str, absent: str = "") -> str:
    """Return what a program printed.

    Args:
        absent: what to do if it cannot be started; as `hint` if empty.

    Raises:
        SchedulerError: it failed, gave no answer in ASK_S, or is not there.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_S,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SchedulerError(f"{argv[0]}: no answer in {ASK_S} s", hint) from error
    except OSError as error:
        raise SchedulerError(f"{argv[0]}: {error.strerror}", absent or hint) from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or b"no message"
        raise SchedulerError(f"{argv[0]}: {last_line(said)}", hint)
    return done.stdout.decode("utf-8", "replace")


def last_line(said: bytes) -> str:
    """Return the last line that a program wrote, for a message; empty if it wrote none."""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return printable(lines[-1])[:_MOST_REASON] if lines else ""
