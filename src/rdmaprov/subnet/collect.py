"""Ask a fabric with the tools of InfiniBand, and keep what they say as text."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.runs.files import write_whole
from rdmaprov.subnet import directory as names
from rdmaprov.subnet.model import Kind
from rdmaprov.subnet.read_discovery import read_discovery
from rdmaprov.subnet.read_states import read_known, read_managers

COMMANDS = {
    names.DISCOVERY: ("ibnetdiscover", "-p"),
    names.TABLES: ("dump_fts",),
    names.STATES: ("iblinkinfo", "-l"),
    names.ERRORS: ("ibqueryerrors",),
    names.MANAGERS: ("sminfo",),
}
# Beside the master; our bound. One priority each would be 16 in all.
_MOST_MANAGERS = 32
_Run = Callable[[Sequence[str]], str]


def require_new(directory: Path) -> None:
    """Raise UsageError for what is no empty directory: texts of two subnets must not mix."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there already", "Name a new directory.")


def collect(
    directory: Path, run: _Run, port: Sequence[str] = (), wait: Callable[[], None] | None = None
) -> None:
    """Write what each tool prints into a new directory, to be judged by `read_directory`.

    The counters are those of every switch's ports: both ends of links between switches, and the
    near end of those to HCAs.

    Args:
        directory: absent or empty.
        port: options of each tool that name the port to ask through.
        wait: if given, the counters are read twice, with this in between.

    Raises:
        UsageError: the directory has files.
    """
    require_new(directory)
    texts = {name: run((words[0], *port, *words[1:])) for name, words in COMMANDS.items()}
    texts |= _managers(texts[names.MANAGERS], run, port)
    counters = directory / names.COUNTERS
    counters.mkdir(parents=True)
    for name, text in texts.items():
        write_whole(directory / name, text, mode=0o666)
    with (directory / names.DISCOVERY).open(encoding="utf-8") as lines:
        switches = _switches(lines)
    if wait is None:
        _read_counters(counters, run, port, switches)
        return
    _read_counters(counters / "1", run, port, switches)
    wait()
    _read_counters(counters / "2", run, port, switches)


def _managers(master: str, run: _Run, port: Sequence[str]) -> dict[str, str]:
    """Return what the managers say: the master, and each other one that it knows."""
    if not read_managers(master.splitlines())[0]:
        return {}
    known = run(("saquery", *port, "SMIR"))
    asked = {each.lid for each in read_managers(master.splitlines())[0]}
    others = [lid for lid in read_known(known.splitlines()) if lid not in asked]
    said = [master, *(run(("sminfo", *port, str(lid))) for lid in others[:_MOST_MANAGERS])]
    return {names.MANAGERS: "".join(said), **({names.KNOWN: known} if known.strip() else {})}


def _read_counters(
    directory: Path, run: _Run, port: Sequence[str], switches: dict[int, int]
) -> None:
    directory.mkdir(exist_ok=True)
    for lid, ports in sorted(switches.items()):
        said = run(("perfquery", *port, "-l", str(lid), f"1-{ports}"))
        write_whole(directory / f"{lid}.txt", said, mode=0o666)


def _switches(lines: Iterable[str]) -> dict[int, int]:
    """Return the last port with a link of each switch, by LID."""
    last: dict[int, int] = {}
    for cable in read_discovery(lines).cables:
        for end in (cable.near, cable.far):
            if end.kind is Kind.SWITCH and end.lid:
                last[end.lid] = max(last.get(end.lid, 0), end.port)
    return last
