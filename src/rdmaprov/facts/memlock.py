"""Locked-memory limits: of logins, of services, and as files have them. In bytes; None is none."""

import re
import shlex
from collections.abc import Sequence

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, Files, whole

LIMITS = ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf")
_NONE = ("unlimited", "infinity", "-1", str((1 << 64) - 1))


def in_kib(text: str, where: str) -> int | None:
    """Return a limit that is written in KiB, as in limits.conf and by ulimit."""
    bytes_or_none = in_bytes(text, where)
    return None if bytes_or_none is None else bytes_or_none << 10


def in_bytes(text: str, where: str) -> int | None:
    """Return a limit that is written in bytes, as by systemd and the kernel.

    Raises:
        CouldNotTell: it is neither a number nor a word for none.
    """
    if text.strip() in _NONE:
        return None
    if not re.fullmatch(r"\d+", text.strip()):
        raise CouldNotTell(f"{where} shows {text.strip()[:40]!r}, not a limit")
    return int(text)


def limit_text(limit: int | None) -> str:
    """Return a limit in words."""
    return "unlimited" if limit is None else f"{limit >> 10} KiB"


def login_limits(host: Host) -> tuple[int | None, int | None]:
    """Return the soft and the hard limit of the login that runs this command."""
    lines = whole(host.run(f"ulimit -S -l; ulimit -H -l; echo {END}").stdout, "ulimit").split()
    if len(lines) != 2:
        raise CouldNotTell(f"ulimit -l: {len(lines)} limits, not two")
    return in_kib(lines[0], "ulimit -S -l"), in_kib(lines[1], "ulimit -H -l")


def service_limits(host: Host, units: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
    """Return the soft and the hard limit of each unit's main process; those that run.

    Raises:
        CouldNotTell: the kernel shows no limit of one.
    """
    names = " ".join(shlex.quote(unit) for unit in units)
    # Process ids differ from node to node; the command does not.
    command = (
        f"for unit in {names}; do "
        'pid=$(systemctl show --property=MainPID --value -- "$unit"); '
        '[ "${pid:-0}" -gt 0 ] || continue; '
        'echo "$unit $(grep "^Max locked memory" "/proc/$pid/limits" 2>&1)"; done; '
        f"echo {END}"
    )
    return parse_services(whole(host.run(command).stdout, "limits of services"))


def parse_services(body: str) -> dict[str, tuple[int | None, int | None]]:
    """Return what `service_limits` prints: UNIT, and the kernel's line of its process's limits."""
    found = {}
    for line in body.splitlines():
        unit, _, rest = line.partition(" ")
        words = re.fullmatch(r"Max locked memory\s+(\S+)\s+(\S+)\s+bytes\s*", rest)
        if words is None:
            raise CouldNotTell(f"{unit}: its process shows {rest[:60]!r}, not a memory limit")
        found[unit] = (in_bytes(words[1], unit), in_bytes(words[2], unit))
    return found


def file_limits(files: Files, user: str) -> dict[str, tuple[str, str]]:
    """Return by "soft" and "hard" what files give a user's logins, and the last file to say so.

    Args:
        files: those of LIMITS. pam_limits reads limits.conf first, the others by name.
        user: a user, @group or *, exactly as it is written there.
    """
    for path in files.reasons:
        files.get(path)  # one that is there and cannot be read
    paths = [path for path in files.texts if path == LIMITS[0]]
    paths += sorted(path for path in files.texts if path.startswith("/etc/security/limits.d/"))
    found: dict[str, tuple[str, str]] = {}
    for path in paths:
        for line in files.texts[path].splitlines():
            words = line.partition("#")[0].split()
            if len(words) == 4 and words[0] == user and words[2] == "memlock":
                for kind in ("soft", "hard") if words[1] == "-" else (words[1],):
                    found[kind] = (words[3], path)
    return found
