"""One run at a time changes or measures the nodes of a site.

The lock is the kernel's, on the site's directory itself: it needs no file and no right to write,
is the same for every user and by every name of the directory, and ends with its process. So there
is nothing that a killed run leaves behind; who holds it is asked of the kernel, too.
"""

import fcntl
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from rdmaprov.cli.verbosity import verbosity
from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory.ansible_api import import_plugin
from rdmaprov.problem import printable
from rdmaprov.verbosity import Verbosity

_POLL_S = 0.2
_MOST_CHARACTERS = 200  # of a command


class SiteHeld(RdmaprovError):
    """Another run holds the site, so that this one did not begin."""

    exit_code = ExitCode.UNKNOWN


@contextmanager
def site_lock(site: Path, wait_s: float) -> Iterator[None]:
    """Hold a site; what is no directory is left to the verb to refuse.

    Args:
        wait_s: seconds to wait for another run that holds it.

    Raises:
        SiteHeld: another run still holds it.
    """
    if not site.is_dir():
        yield
        return
    directory = os.open(site, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _wait_for(site, directory, wait_s)
        yield
    finally:
        os.close(directory)


def node_lock_variables(run: Path, wait_s: float) -> dict[str, object]:
    """Return the variable with which a playbook's roles lock the nodes for this run."""
    holder = import_plugin("plugin_utils.holder").of_process(os.getpid(), str(run.resolve()))
    return {"apply_lock": {"holder": asdict(holder), "wait_s": wait_s}}


def _wait_for(site: Path, directory: int, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    is_announced = False
    while not _lock(site, directory):
        message = f"{printable(str(site))} is {_held_by(directory)}"
        if time.monotonic() >= deadline:
            raise SiteHeld(message, "Wait for that run to end, or pass --wait SECONDS.")
        if not is_announced and verbosity() is not Verbosity.QUIET:
            click.echo(f"{message}; waiting up to {wait_s:.0f} s", err=True)
        is_announced = True
        time.sleep(_POLL_S)


def _lock(site: Path, directory: int) -> bool:
    """Take the kernel's lock on a directory; return whether it was free."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise RdmaprovError(
            f"{printable(str(site))} cannot be locked: {error.strerror}",
            "Copy the site to a filesystem that has locks.",
        ) from error
    return True


def _held_by(directory: int) -> str:
    """Return who holds the lock on a directory, for a message."""
    pid = _find_holder(directory)
    try:
        holder = import_plugin("plugin_utils.holder").of_process(pid, _command(pid))
    except OSError:  # it ended meanwhile, or is in another container
        return "held by another run on this machine"
    return printable(f"held by {holder}")


def _find_holder(directory: int) -> int:
    """Return the process with the kernel's lock on a directory; 0 if it is not shown."""
    inode = f"{_device(directory)}:{os.fstat(directory).st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == inode:
            return int(words[4])
    return 0


def _device(file: int) -> str:
    """Return the device of an open file as /proc/locks writes it; Btrfs tells stat another one."""
    info = Path(f"/proc/self/fdinfo/{file}").read_text().split()
    mount = info[info.index("mnt_id:") + 1]
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        number, _, device, *_ = line.split()
        if number == mount:
            major, minor = map(int, device.split(":"))
            return f"{major:02x}:{minor:02x}"
    return ""


def _command(pid: int) -> str:
    """Return the command line of a process, from the program's name on."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    names = [Path(word).name for word in words]
    if "rdmaprov" in names:
        words = words[names.index("rdmaprov") :]
        words[0] = "rdmaprov"
    return shlex.join(words)[:_MOST_CHARACTERS]
