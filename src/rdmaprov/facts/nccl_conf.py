"""/etc/nccl.conf, as NCCL reads it. Source: NCCL src/misc/param.cc, setEnvFile.

A line is split at its first "="; nothing is taken off either part; the first line for a variable
counts; what begins with "#" is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import END, read_files, whole

PATH = "/etc/nccl.conf"
ENGINES = ("enroot", "docker", "podman", "containerd")


@dataclass(frozen=True)
class NcclConf:
    """What a process gets from the file.

    Args:
        values: by variable.
        odd: lines that NCCL reads otherwise than they look, each with its number.
    """

    values: Mapping[str, str]
    odd: tuple[str, ...]


def read(host: Host) -> NcclConf | None:
    """Return what the file gives a process, None if there is no file.

    Raises:
        CouldNotTell: it cannot be read.
    """
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
    wanted = read(host)
    values = {f"{name}={value}" for name, value in wanted.values.items()} if wanted else set()
    return "by environ.d" if values and values <= lines else None


def _is_odd(name: str, equals: str, value: str) -> bool:
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return bool(name.strip())
    return value != value.strip() or bool(re.search(r"['\"]|\s#", value))
