"""NCCL's variables: /etc/nccl.conf, and what counts more than that file, and for whom.

A process's environment counts most, then the file of NCCL_CONF_FILE or the user's ~/.nccl.conf,
then /etc/nccl.conf (NCCL src/misc/param.cc, initEnvFunc; setenv without overwriting). Homes are
those of /etc/passwd and below /home; a job's own environment is the job's.

Of /etc/nccl.conf, a line is split at its first "="; nothing is taken off either part; the first
line for a variable counts; what begins with "#" is left out (setEnvFile).
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, Files, parse_files, read_files, whole

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


@dataclass(frozen=True)
class Assignment:
    """A variable that something sets; `where`: the file with its line, or the unit."""

    where: str
    name: str
    value: str


def read(host: Host) -> tuple[Assignment, ...]:
    """Return what logins, users' files and daemons set."""
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
        for name, value in parse(text).values.items():
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


PATH = "/etc/nccl.conf"
ENGINES = ("enroot", "docker", "podman", "containerd")


@dataclass(frozen=True)
class NcclConf:
    """What a process gets from the file."""

    values: Mapping[str, str]
    odd: tuple[str, ...]  # lines that NCCL reads otherwise than they look, each with its number


def read_conf(host: Host) -> NcclConf | None:
    """Return what the file gives a process, None if there is no file."""
    text = read_files(host, PATH).get(PATH)
    return None if text is None else parse(text)


@remember
def parse(text: str) -> NcclConf:
    """Return what a text in the file's format gives a process."""
    values: dict[str, str] = {}
    odd = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#") or not line:
            continue
        name, equals, value = line.partition("=")
        values.setdefault(name, value) if equals else None
        if _is_odd(name, equals, value):
            odd.append(f"line {number}: {line}")
    return NcclConf(values, tuple(odd))


def engines(host: Host) -> list[str]:
    """Return the container engines that are installed on the node."""
    paths = " ".join(f"/usr/bin/{name} /usr/local/bin/{name}" for name in ENGINES)
    found = whole(host.run(f"ls {paths} 2> /dev/null; echo {END}").stdout, "container engines")
    return [name for name in ENGINES if f"/{name}\n" in found]


def in_enroot(host: Host) -> str | None:
    """Return how enroot's containers get what the file says, None if they do not.

    A mount or a variable may be in any file of mounts.d or environ.d; of the variables, all count.
    """
    files = read_files(host, "/etc/enroot/mounts.d/*.fstab", "/etc/enroot/environ.d/*.env").texts
    lines = {line.strip() for text in files.values() for line in text.splitlines()}
    if any(line.split()[:2] == [PATH, PATH] for line in lines):
        return "by mounts.d"
    wanted = read_conf(host)
    values = {f"{name}={value}" for name, value in wanted.values.items()} if wanted else set()
    return "by environ.d" if values and values <= lines else None


def _is_odd(name: str, equals: str, value: str) -> bool:
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return bool(name.strip())
    return value != value.strip() or bool(re.search(r"['\"]|\s#", value))
