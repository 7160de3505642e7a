"""What slurm.conf says of the limits that jobs get, and of the NVLink between their nodes.

Sources: man slurm.conf(5); Slurm's guide "Configless Slurm" (conf-cache, /run/slurm/conf);
Slurm src/common/slurm_rlimits_info.c, parse_rlimits.
"""

import posixpath
import re
from collections.abc import Iterator

from rdmaprov.boundary import shown
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import read_files

# slurmd of a cluster without files on its nodes links what it fetched; else it reads the file.
FILES = ("/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
EXCEPT, LIMITS = "propagateresourcelimitsexcept", "propagateresourcelimits"
_LINE = re.compile(r"\s*(PropagateResourceLimits(?:Except)?)\s*=\s*(\"[^\"]*\"|\S*)", re.IGNORECASE)
_IMEX = re.compile(r"\s*SwitchType\s*=\s*\"?switch/nvidia_imex\b", re.IGNORECASE)
_INCLUDE = re.compile(r"\s*Include\s+(\S+)\s*", re.IGNORECASE)
_MOST_INCLUDED = 64


def memlock_comes_from_the_submitter(host: Host) -> tuple[bool, str]:
    """Return whether jobs get the submitter's memlock limit, and the line or file that says so.

    Raises:
        CouldNotTell: no slurm.conf is there, or one that it includes cannot be read.
    """
    path, lines = _read(host)
    if not path:
        raise CouldNotTell(f"slurmd is installed, and none of {', '.join(FILES)} is there")
    found: dict[str, tuple[str, str]] = {}
    for place, line in lines:
        if setting := _LINE.match(line):
            found[setting[1].lower()] = (setting[2].strip('"'), f"{place}: {shown(line.strip())}")
    # Slurm src/common/read_config.c: the exceptions count, and the other line only without them.
    if EXCEPT in found:
        value, where = found[EXCEPT]
        return not _names_memlock(value), where
    value, where = found.get(LIMITS, ("ALL", path))
    return _names_memlock(value), where


def makes_imex_channels(host: Host) -> bool:
    """Return whether Slurm makes an IMEX channel for each job (SwitchType)."""
    return any(_IMEX.match(line) for _, line in _read(host)[1])


def _read(host: Host) -> tuple[str, list[tuple[str, str]]]:
    """Return the path of slurm.conf, empty without one, and its lines, each with its file."""
    files = read_files(host, *FILES)
    path = next((each for each in FILES if files.get(each) is not None), "")
    return path, [*_lines(host, path, files.must(path), [_MOST_INCLUDED])] if path else []


def _names_memlock(value: str) -> bool:
    names = {each.upper().removeprefix("RLIMIT_") for each in re.split(r"[,\s]+", value)}
    return bool({"ALL", "MEMLOCK"} & names)


def _lines(host: Host, path: str, text: str, left: list[int]) -> Iterator[tuple[str, str]]:
    """Yield file and line without its comment, of a file and of those that it includes."""
    for line in text.replace("\\\n", " ").splitlines():
        code = line.partition("#")[0]
        included = _INCLUDE.fullmatch(code)
        if included is None:
            yield path, code
            continue
        left[0] -= 1
        other = posixpath.join(posixpath.dirname(path), included[1])
        body = read_files(host, other).get(other)
        if body is None or left[0] < 0:
            raise CouldNotTell(f"{path} includes {shown(included[1])}, which cannot be read")
        yield from _lines(host, other, body, left)
