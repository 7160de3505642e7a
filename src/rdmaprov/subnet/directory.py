"""Read a directory of texts that infiniband-diags printed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rdmaprov.errors import UsageError
from rdmaprov.subnet.model import Kind, Reading, Subnet
from rdmaprov.subnet.read_discovery import read_discovery
from rdmaprov.subnet.read_states import (
    read_counters,
    read_errors,
    read_known,
    read_managers,
    read_states,
    read_tables,
)
from rdmaprov.words import quantity

DISCOVERY = "ibnetdiscover-p.txt"
TABLES = "dump_fts.txt"
ERRORS = "ibqueryerrors.txt"
STATES = "iblinkinfo-l.txt"
MANAGERS = "sminfo.txt"
KNOWN = "saquery-smir.txt"  # not one of NAMES: `explain subnet` needs none
COUNTERS = "perfquery"
NAMES = (DISCOVERY, TABLES, ERRORS, STATES, MANAGERS, COUNTERS)

# Of ibdiagnet: it names all managers, as sminfo of each does; the log has what it calls an error.
IBDIAGNET_MANAGERS, LOG = "ibdiagnet2.sm", "ibdiagnet2.log"

# Our bounds: 20,000 HCAs and 2,500 switches write 4 GB of tables; no line of the tools is longer
# than 300 characters.
MOST_BYTES = 8 << 30
_LONGEST_LINE = 4096
_T = TypeVar("_T")


def read_directory(directory: Path) -> Subnet:
    """Return what a directory says. What is missing, empty or cut is in `not_verified`.

    Raises:
        UsageError: it is no directory, or has none of the files.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory", f"Pass a directory with {DISCOVERY}.")
    if not any((directory / name).exists() for name in (*NAMES, IBDIAGNET_MANAGERS, LOG)):
        raise UsageError(
            f"{directory} has none of {', '.join(NAMES)}",
            "Write what the tools print into files of these names, such as:"
            f" ibnetdiscover -p > {directory / DISCOVERY}",
        )
    subnet = Subnet()
    _read_discovery(directory, subnet)
    _read_tables(directory, subnet)
    _read_states(directory, subnet)
    _read_errors(directory, subnet)
    _read_managers(directory, subnet)
    _read_counters(directory / COUNTERS, subnet)
    if (directory / LOG).exists():
        _parse(directory / LOG, subnet, lambda lines: _read_log(lines, subnet))
    return subnet


def _read_log(lines: Iterator[str], subnet: Subnet) -> None:
    """Name what ibdiagnet calls an error, by thresholds that are its caller's and not ours."""
    errors = [line.strip()[:300] for line in lines if line.startswith("-E-")]
    if errors:
        what = f"{quantity(len(errors), 'error')} by thresholds of ibdiagnet's own, the first"
        subnet.lacks(LOG, f"has {what}: {errors[0]}")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file; bytes that are no UTF-8, and NUL, become a replacement."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as text:
        while line := text.readline(_LONGEST_LINE):
            yield line.replace("\r\n", "\n").replace("\0", "\ufffd")


def _parse(path: Path, subnet: Subnet, parser: Callable[[Iterator[str]], _T]) -> _T | None:
    """Return what a parser makes of a file; None, with the reason noted, if it is not there."""
    name = path.name
    try:
        size = path.stat().st_size
        if not path.is_file():
            subnet.lacks(name, "is no file")
        elif not size:
            subnet.lacks(name, "is empty")
        elif size > MOST_BYTES:
            subnet.lacks(name, "is larger than 8 GiB")
        else:
            return parser(_lines(path))
    except FileNotFoundError:
        subnet.lacks(name, "is missing")
    except OSError as error:
        subnet.lacks(name, f"cannot be read: {error.strerror}")
    return None


def _read_discovery(directory: Path, subnet: Subnet) -> None:
    found = _parse(directory / DISCOVERY, subnet, read_discovery)
    if found is None:
        return
    subnet.discovery = found
    if not found.cables:
        subnet.lacks(DISCOVERY, "has no link")
    elif found.is_cut:
        subnet.lacks(DISCOVERY, "is cut: ends of links are missing")


def _read_tables(directory: Path, subnet: Subnet) -> None:
    found = _parse(directory / TABLES, subnet, read_tables)
    if found is None:
        return
    subnet.tables = found
    if not found:
        subnet.lacks(TABLES, "has no table")
    cut = [table.name for table in found.values() if not table.is_whole]
    if cut:
        subnet.lacks(TABLES, f"is cut: the table of {cut[0]} has no end")


def _read_states(directory: Path, subnet: Subnet) -> None:
    found = _parse(directory / STATES, subnet, read_states)
    if found is None:
        return
    subnet.states, is_cut = found
    if not subnet.states:
        subnet.lacks(STATES, "has no port")
    elif is_cut:
        subnet.lacks(STATES, "is cut")
    elif absent := _absent_states(subnet):
        subnet.lacks(STATES, f"is cut: it lacks {absent:,} ports of switches")


def _absent_states(subnet: Subnet) -> int:
    """Return how many ports of switches with a link have no state."""
    seen = {(state.guid, state.port) for state in subnet.states}
    return sum(
        end.kind is Kind.SWITCH and end.key not in seen
        for cable in subnet.discovery.cables
        for end in (cable.near, cable.far)
    )


def _read_errors(directory: Path, subnet: Subnet) -> None:
    found = _parse(directory / ERRORS, subnet, read_errors)
    if found is None:
        return
    subnet.errors, is_whole = found
    if not is_whole:
        subnet.lacks(ERRORS, "is cut: its summary is missing")


def _read_managers(directory: Path, subnet: Subnet) -> None:
    path = directory / MANAGERS
    if not path.exists() and (directory / IBDIAGNET_MANAGERS).exists():
        path = directory / IBDIAGNET_MANAGERS
    found = _parse(path, subnet, read_managers)
    if found is None:
        return
    subnet.managers, subnet.manager_failed = found
    if path.name != MANAGERS:
        subnet.known_managers = [each.lid for each in subnet.managers]
    if (directory / KNOWN).exists():
        subnet.known_managers = _parse(directory / KNOWN, subnet, read_known)
    if not subnet.managers and not subnet.manager_failed:
        subnet.lacks(MANAGERS, "has no manager")


def _read_counters(directory: Path, subnet: Subnet) -> None:
    """Read all files below perfquery/, in the order of their names."""
    if not directory.is_dir():
        subnet.lacks(f"{COUNTERS}/", "is missing")
        return
    by_port: dict[tuple[int, int, frozenset[str]], list[Reading]] = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        readings = _parse(path, subnet, read_counters)
        if readings is not None and not readings and not _has_head(path):
            subnet.lacks(f"{COUNTERS}/{path.name}", "has no counters")
        if readings and _is_cut(path, readings):
            subnet.lacks(f"{COUNTERS}/{path.name}", "is cut")
        for reading in readings or []:
            key = reading.lid, reading.port, frozenset(reading.counters)
            by_port.setdefault(key, []).append(reading)
    subnet.readings = list(by_port.values())
    if not by_port:
        subnet.lacks(f"{COUNTERS}/", "has no counters")


def _is_cut(path: Path, readings: list[Reading]) -> bool:
    """Return whether a file ends within a line, or its last port lacks counters of another."""
    last = readings[-1].counters.keys()
    *_, line = _lines(path)
    return not line.endswith("\n") or any(last < each.counters.keys() for each in readings)


def _has_head(path: Path) -> bool:
    """Return whether a file has the sums of a switch's ports alone, which are not judged."""
    return any(line.startswith("# Port ") for line in _lines(path))
