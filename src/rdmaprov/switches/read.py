"""Read the saved answers of a switch with the reader of its system."""

from __future__ import annotations

from dataclasses import replace

from rdmaprov.switches import arista, cumulus, openconfig, sonic
from rdmaprov.switches.model import SwitchReading
from rdmaprov.switches.reader import SwitchReader
from rdmaprov.switches.saved import SavedSwitch

# SONiC may answer gNMI, too; its own database says more.
READERS: tuple[SwitchReader, ...] = (
    sonic.READER,
    arista.READER,
    cumulus.READER,
    openconfig.READER,
)


def read_switch(saved: SavedSwitch) -> SwitchReading:
    """Return what the answers say; those of no known command, or of another system, are named."""
    known = [
        (answer, next((each for each in READERS if each.knows(answer)), None))
        for answer in saved.answers
    ]
    reader = next((each for _, each in known if each is not None), None)
    not_read = list(saved.not_read)
    for answer, own in known:
        if own is None:
            not_read.append(f"{answer.label} is of no known command")
        elif own is not reader and reader is not None:
            not_read.append(f"{answer.label} is of {own.system}, others are of {reader.system}")
    if reader is None:
        return SwitchReading(saved.name, None, not_read=tuple(not_read))
    found = reader.read(saved.name, [answer for answer, own in known if own is reader])
    return replace(found, not_read=(*not_read, *found.not_read))
