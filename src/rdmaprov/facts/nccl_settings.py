"""NCCL's variables outside /etc/nccl.conf: what counts more than that file, and for whom.

A process's environment counts most, then the file of NCCL_CONF_FILE or the user's ~/.nccl.conf,
then /etc/nccl.conf (NCCL src/misc/param.cc, initEnvFunc; setenv without overwriting). Homes are
those of /etc/passwd and below /home; a job's own environment is the job's.

The tuner plugin's file: github.com/NVIDIA/nccl, plugins/tuner/example/plugin.c, loadConfig.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rdmaprov.facts import nccl_conf
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, Files, parse_files, read_files, whole

TUNER_PATH = "/etc/nccl_tuner.conf"
LOGINS = (
    "/etc/environment",
    "/etc/security/pam_env.conf",
    "/etc/profile",
    "/etc/profile.d/*.sh",
    "/etc/bash.bashrc",
    "/etc/bashrc",
)
# What starts jobs, and gives them its environment.
DAEMONS = ("slurmd", "kubelet", "containerd", "docker", "crio", "k3s", "k3s-agent", "rke2-server",
           "rke2-agent", "pbs_mom", "pbs", "sgeexecd", "lsfd", "flux")  # fmt: skip
_ASSIGNMENT = re.compile(r"(?:^|[\s;\"'])(NCCL_[A-Z0-9_]+)=(\"[^\"]*\"|'[^']*'|[^\s;\"']*)")
# pam_env.conf: NAME DEFAULT=value OVERRIDE=value
_OF_PAM = re.compile(r"^\s*(NCCL_[A-Z0-9_]+)\s.*?(?:OVERRIDE|DEFAULT)=(\S+)")
_DOT_FILES = (
    "{ printf '%s\\n' /root/ /home/*/; cut -d: -f6 /etc/passwd; } | sort -u |"
    " while IFS= read -r home; do"
    ' file="${home%/}/.nccl.conf"; [ ! -f "$file" ] || LC_ALL=C grep -aHZ "" "$file"; done; '
    f"echo {END}"
)


def tuner_lines(host: Host) -> tuple[str, ...] | None:
    """Return the lines that count, None if there is no file.

    Raises:
        CouldNotTell: it cannot be read.
    """
    text = read_files(host, TUNER_PATH).get(TUNER_PATH)
    return None if text is None else effective(text)


def effective(text: str) -> tuple[str, ...]:
    """Return the lines that count: the first one that fits a collective is taken."""
    return tuple(line for line in text.split("\n") if line and not line.startswith("#"))


@dataclass(frozen=True)
class Assignment:
    """A variable that something sets.

    Args:
        where: the file with its line, or the unit.
    """

    where: str
    name: str
    value: str


def read(host: Host) -> tuple[Assignment, ...]:
    """Return what logins, users' files and daemons set.

    Raises:
        CouldNotTell: a file cannot be read, or systemd does not answer.
    """
    logins = read_files(host, *LOGINS)
    done = host.run(_DOT_FILES)
    dots = parse_files(done.stdout, done.stderr)
    return (*_of_logins(logins), *_of_users(dots), *_of_daemons(host))


def _of_logins(files: Files) -> Iterator[Assignment]:
    for match, text in files.matching(r"/etc/.+"):
        for number, line in enumerate(text.splitlines(), 1):
            code = line.partition("#")[0]
            found = _OF_PAM.findall(code) or _ASSIGNMENT.findall(code)
            for name, value in found:
                yield Assignment(f"{match[0]}:{number}", name, value.strip("\"'"))


def _of_users(files: Files) -> Iterator[Assignment]:
    for reason in files.reasons:
        files.get(reason)
    for match, text in files.matching(r".+/\.nccl\.conf"):
        for name, value in nccl_conf.parse(text).values.items():
            yield Assignment(match[0], name, value)


def _of_daemons(host: Host) -> Iterator[Assignment]:
    """Yield what the units say, and what their processes have."""
    names = " ".join(f"{name}.service" for name in DAEMONS)
    show = f"systemctl show --no-pager --property=Id,MainPID,Environment -- {names}; echo {END}"
    processes: dict[str, str] = {}
    for block in whole(host.run(show).stdout, "systemctl show").strip().split("\n\n"):
        unit = dict(line.partition("=")[::2] for line in block.splitlines())
        for word in _words(unit.get("Environment", "")):
            for name, value in _ASSIGNMENT.findall(word):
                yield Assignment(f"{unit.get('Id')} (Environment)", name, value)
        if unit.get("MainPID", "0") not in ("", "0"):
            processes[unit["MainPID"]] = unit.get("Id", "")
    yield from _of_processes(host, processes)


def _of_processes(host: Host, units: dict[str, str]) -> Iterator[Assignment]:
    if not units:
        return
    paths = [f"/proc/{shlex.quote(process)}/environ" for process in units]
    command = "; ".join(
        f"echo '== {unit}'; tr '\\0' '\\n' < {path} | grep -a ^NCCL_"
        for path, unit in zip(paths, units.values(), strict=True)
    )
    unit = ""
    for line in whole(host.run(f"{command}; echo {END}").stdout, "reading environ").splitlines():
        if line.startswith("== "):
            unit = line[3:]
            continue
        name, equals, value = line.partition("=")
        if equals:
            yield Assignment(f"{unit} (its process)", name, value)


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CouldNotTell(f"systemctl show: Environment={text[:60]!r}: {error}") from error
