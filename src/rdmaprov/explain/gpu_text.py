"""What a saved `nvidia-smi -q` shows: its GPUs' health, by the rules of `validate`."""

import re
from collections.abc import Iterator

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.gpu import JOINED, REGISTERING, Gpu, parse
from rdmaprov.facts.gpu_health import Found, findings, table
from rdmaprov.finding.finding import Finding
from rdmaprov.finding.kinds import kinds
from rdmaprov.problem import printable
from rdmaprov.words import quantity

_BEGIN = re.compile(r"(?m)^([ \t>]*)=+NVSMI LOG=+")  # indented or quoted, where it was pasted
_ATTACHED = re.compile(r"(?m)^Attached GPUs +: (\d{1,3})\s*$")
_CHECKS = tuple(dict.fromkeys(row["check"] for row in table()))
_FABRIC = "NVLink fabric"


def read(given: GivenText) -> Shown:
    """Return what the text shows of each GPU; what no field of it tells is not known."""
    begin = _BEGIN.search(given.text)
    skip = len(begin[1]) if begin else 0
    text = "\n".join(line[skip:] for line in given.text.split("\n"))
    attached = _ATTACHED.findall(text)
    save = "save all that nvidia-smi -q prints, of each node and time in a file of its own"
    try:
        driver = parse(text)
    except CouldNotTell as error:
        return _shown(given, (unread(given.name, printable(str(error)), save),))
    count, gpus = len(driver.gpus), driver.gpus
    if len(attached) != 1 or count > int(attached[0]):
        what = f"{quantity(count, 'GPU')}, where it names {' and '.join(attached) or 'no number'}"
        return _shown(given, (unread(given.name, what, save),))
    found = {each.address: [*_judged(each)] for each in gpus}
    wrong = [
        _finding(gpu, each) for gpu in gpus for each in found[gpu.address] if each.wanted != ""
    ]
    if count < int(attached[0]):
        wrong.append(unread(given.name, f"{count} of {attached[0]} GPUs are in it", save))
    seen = [{each.name for each in found[gpu.address] if each.seen} for gpu in gpus]
    fields = dict.fromkeys((*(row["field"] for row in table()), _FABRIC))
    right = [each for each in fields if all(each in own for own in seen)]
    silent = {each.name for own in found.values() for each in own if each.seen is None}
    absent = ", ".join(each for each in fields if each in silent)
    rest = ", ".join(each for each in fields if each not in {*right, *silent})
    lacks = {
        f"{absent}: driver {driver.version} does not print it": absent,
        f"{rest}: a GPU has it not, or is not at work": rest,
    }
    models = ", ".join({_model(each): 0 for each in gpus})
    return _shown(
        given,
        tuple(wrong),
        (f"driver {driver.version}; {quantity(count, 'GPU')}: {models}",),
        "" if wrong or not right else f"of each GPU: {', '.join(right)}",
        (
            *(line for line, names in lacks.items() if names),
            "NVLinks: nvidia-smi nvlink -s, -e; Xids: dmesg -T",
        ),
    )


def _shown(
    given: GivenText,
    wrong: tuple[Finding, ...],
    says: tuple[str, ...] = (),
    proves: str = "",
    lacks: tuple[str, ...] = (),
) -> Shown:
    return Shown("nvidia-smi-q", (given.name,), says, wrong, proves, lacks)


def _judged(gpu: Gpu) -> Iterator[Found]:
    for check in _CHECKS:
        yield from findings(gpu, check)
    if not gpu.has_fabric:
        return
    state, status = (gpu.values.get(f"fabric/{each}", "") for each in ("state", "status"))
    seen = f"{state}, {status}"
    # A boot may have been just before: the text does not say.
    wanted = "" if seen == JOINED else None if state in REGISTERING else JOINED
    yield Found("gpu.links", _FABRIC, seen, wanted)
    try:
        yield from (Found("gpu.links", _FABRIC, *each) for each in gpu.fabric_faults())
    except CouldNotTell as error:
        yield Found("gpu.links", _FABRIC, str(error), None)


def _finding(gpu: Gpu, found: Found) -> Finding:
    expected = f", expected {found.wanted}" if found.wanted else ""
    what = f"{gpu.address} ({_model(gpu)}): {found.name} is {printable(found.seen or '')}{expected}"
    remedy = kinds()[found.kind].causes
    return Finding(found.kind, what, remedy, part=gpu.address, proven=found.wanted is not None)


def _model(gpu: Gpu) -> str:
    return printable(gpu.values.get("product name", "model unknown")[:64])
