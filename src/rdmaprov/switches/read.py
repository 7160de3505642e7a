"""Read the saved answers of a switch with the reader of its system.

A system is known by what only it writes. An answer that fits two systems is read as neither, and
so are the answers of a switch that are of two systems.
"""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from rdmaprov.switches import arista, cumulus, sonic
from rdmaprov.switches.model import SwitchReading
from rdmaprov.switches.reader import SwitchReader
from rdmaprov.switches.saved import SavedAnswer, SavedSwitch

READERS: tuple[SwitchReader, ...] = (sonic.READER, arista.READER, cumulus.READER)
_LIKE = "a system whose ports are named like GigabitEthernet1/0/1"
_MOST_CHARACTERS = 1 << 20


def read_switch(saved: SavedSwitch) -> SwitchReading:
    """Return what the answers say; those of no known command, or of another system, are named."""
    not_read = list(saved.not_read)
    known = [(answer, _reader_of(answer)) for answer in saved.answers]
    reader = next((own for _, own in known if isinstance(own, SwitchReader)), None)
    for answer, own in known:
        if own is None:
            not_read.append(f"{answer.label} is of no known {'command' if reader else 'system'}")
        elif isinstance(own, str):
            not_read.append(f"{answer.label} {own}")
        elif own is not reader and reader is not None:
            not_read.append(f"{answer.label} is of {own.system}, others are of {reader.system}")
    if all(own is None for _, own in known):
        not_read.append("what can be saved: rdmaprov explain switch --commands SYSTEM")
    if reader is None or any(_contradicts(own, reader) for _, own in known):
        return SwitchReading(saved.name, None, not_read=tuple(not_read))
    found = reader.read(saved.name, [answer for answer, own in known if own is reader])
    return replace(found, not_read=(*not_read, *found.not_read))


def is_known(answer: SavedAnswer) -> bool:
    """Return whether a system that I know, with a reader or without one, wrote an answer."""
    return _reader_of(answer) is not None


def _contradicts(own: SwitchReader | str | None, reader: SwitchReader) -> bool:
    """Return whether an answer is of another system; any may answer gNMI, SONiC has two shells."""
    if isinstance(own, SwitchReader):
        return own is not reader
    is_shell = own is not None and own.startswith("is of ") and reader.system in own
    return own is not None and not is_shell


def _reader_of(answer: SavedAnswer) -> SwitchReader | str | None:
    """Return the only reader that knows an answer, None if none does; else why none reads it."""
    readers = [each for each in READERS if each.knows(answer)]
    text = answer.text[:_MOST_CHARACTERS] if answer.document is None else ""
    known = _systems()
    others = [name for name, (begins, _) in known.items() if begins.search(text)]
    if not others and len(readers) < 2:
        return readers[0] if readers else None
    others = others[:1] if others == [_LIKE] else [each for each in others if each != _LIKE]
    if readers:
        fits = f"it fits {' and '.join([*(each.system for each in readers), *others])}"
        save = f"; if it is of {others[0]}, {known[others[0]][1]}" if others else ""
        return f"is not of one system that I know: {fits}{save}"
    return f"is of {' or '.join(others)}, not a system that I know; {known[others[0]][1]}"


_BY_HAND = "nothing of it is read: compare its PFC, ECN, DSCP map and MTU by hand"


@cache
def _systems() -> dict[str, tuple[re.Pattern[str], str]]:
    """Return how lines of systems without a reader begin, and what to save instead."""
    text = Path(__file__).with_name("systems.yml").read_text(encoding="utf-8")
    return {
        each["system"]: (
            re.compile(rf"^[ \t]*(?:{'|'.join(each['begins'])})", re.MULTILINE),
            f"save instead {each['instead']}" if "instead" in each else _BY_HAND,
        )
        for each in yaml.safe_load(text)
    }
