"""Ask a fabric with the tools of InfiniBand, and keep what they say as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.subnet import directory as names
from rdmaprov.subnet.model import Kind
from rdmaprov.subnet.read_discovery import read_discovery

COMMANDS = {
    names.DISCOVERY: ("ibnetdiscover", "-p"),
    names.TABLES: ("dump_fts",),
    names.STATES: ("iblinkinfo", "-l"),
    names.ERRORS: ("ibqueryerrors",),
    names.MANAGERS: ("sminfo",),
}


def collect(directory: Path, run: Callable[[Sequence[str]], str]) -> None:
    """Write what each tool prints into a new directory, to be judged by `read_directory`.

    The counters are those of every switch's ports: both ends of links between switches, and the
    near end of those to HCAs.

    Args:
        directory: absent or empty.
        run: returns what a command prints.

    Raises:
        UsageError: the directory has files.

    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there already", "Name a new directory.")
    texts = {name: run(command) for name, command in COMMANDS.items()}
    counters = directory / names.COUNTERS
    counters.mkdir(parents=True)
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    with (directory / names.DISCOVERY).open(encoding="utf-8") as lines:
        switches = _switches(lines)
    for lid, ports in sorted(switches.items()):
        said = run(("perfquery", "-l", str(lid), f"1-{ports}"))
        (counters / f"{lid}.txt").write_text(said, encoding="utf-8")


def _switches(lines: Iterable[str]) -> dict[int, int]:
    """Return the last port with a link of each switch, by LID."""
    last: dict[int, int] = {}
    for cable in read_discovery(lines).cables:
        for end in (cable.near, cable.far):
            if end.kind is Kind.SWITCH and end.lid:
                last[end.lid] = max(last.get(end.lid, 0), end.port)
    return last
