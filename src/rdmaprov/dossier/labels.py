"""What makers wrote on parts, why some of it is no serial number, and where each part is."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.dossier.kept import KeptRun, Row
from rdmaprov.node.devices import PCI
from rdmaprov.words import some

Place = tuple[str, int]  # a node, and the number of its rail or GPU
# As makers of boards and cards leave it, or programs print it, where there is none.
_FILLERS = {"n/a", "na", "none", "null", "unknown", "not available", "not specified", "0123456789"}
_FILLERS |= {"not applicable", "default string", "to be filled by o.e.m.", "system serial number"}
_CARD = {"part": "part number", "serial": "serial number"}
_MODULE = {"part": "part number", "serial": "serial number at the node", "vendor": "vendor"}
_MODULE |= {"revision": "revision", "date": "date code", "type": "type"}
MOST_ENDS = 2  # of a cable


def judged(text: str, unique: bool = True) -> tuple[str, str]:
    """Return what a maker wrote, and why that says nothing; what is `unique` is not one sign."""
    # ethtool prints a byte that is no letter as _, so also NUL and FF behind a text.
    plain = text.strip().rstrip("_").rstrip()
    if not text.strip():
        return "", "the field is blank"
    if len(set(plain.lower()) - set(" .:_-")) <= unique or plain.lower() in _FILLERS:
        return "", f"the field has a filler: {text.strip()}"
    return plain, ""


def label(run: KeptRun, what: str, text: str | None, read: str, why: str = "") -> Row:
    """Return the field of what a maker wrote; None: the run did not read it."""
    value, reason = judged(text or "", "serial" in what or "UUID" in what)
    reason = "accept did not read it" if text is None else reason
    return run.field(what, value, read, reason if text or not why else why)


def places(run: KeptRun, of: str) -> dict[tuple[str, ...], list[Place]]:
    """Return where each part of a kind is in a run: NIC (its GUID), card, cable or GPU."""
    found: dict[tuple[str, ...], list[Place]] = defaultdict(list)
    for node, own in run.data["nodes"].items():
        parts = (own.get("identity") or {}).get("gpus" if of == "GPU" else "rails", ())
        for number, part in enumerate(parts):
            for key in _keys(part, of):
                if judged(key[-1])[0] and (node, number) not in found[key]:
                    found[key].append((node, number))
    return found


def _keys(part: Mapping[str, Any], of: str) -> list[tuple[str, ...]]:
    if of == "cable":
        return [(each["part"], each["serial"]) for each in part.get("modules", ())]
    if of == "card":
        return [(part.get("part", ""), part.get("serial", ""))]
    return [(part["uuid" if of == "GPU" else "guid"],)]


def of_rail(run: KeptRun, at: Place, nic: Mapping[str, Any]) -> Iterator[Row]:
    """Yield what is written on the NIC of a rail, and on the modules in its ports."""
    head, read, why = f"rail {at[1]}: ", f"cat /{PCI}/{nic['pci']}/vpd", nic.get("why", "")
    for key, word in _CARD.items():
        yield label(run, f"{head}{word} of its NIC", nic.get(key), read, why)
    yield from _same(run, at, "card", nic, f"{head}NIC", read)
    for each in nic.get("modules") or [{}]:
        name, read = f"{head}cable at {each.get('port', '')}", each.get("read", "ethtool -m")
        for key, word in _MODULE.items():
            yield label(run, f"{name}: {word}", each.get(key), read, each.get("why", ""))
        if each:
            yield from _same(run, at, "cable", {"modules": [each]}, name, read)


def _same(
    run: KeptRun, at: Place, of: str, part: Mapping[str, Any], what: str, read: str
) -> Iterator[Row]:
    """Yield where else in a run the serial number of a part is, and what that may mean."""
    (key,) = _keys(part, of)
    others = [each for each in places(run, of).get(key, ()) if each != at]
    means = "its other end, a breakout" if len(others) < MOST_ENDS else "a breakout"
    means = "another port of the card" if of == "card" else means
    where = some([f"{node} rail {number}" for node, number in others], 4)
    if others:
        means = f"{where}: {means}, or a copied EEPROM"
        yield run.field(f"{what}: same serial number", means, read)
