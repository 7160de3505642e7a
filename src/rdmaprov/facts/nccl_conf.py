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
from rdmaprov.facts.text import read_files

PATH = "/etc/nccl.conf"


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


def _is_odd(name: str, equals: str, value: str) -> bool:
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return bool(name.strip())
    return value != value.strip() or bool(re.search(r"['\"]|\s#", value))
