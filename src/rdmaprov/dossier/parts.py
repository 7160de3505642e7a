"""The parts of a node with their serial numbers, and whether a fault follows one elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.dossier.findings import has_part, of_run
from rdmaprov.dossier.kept import KeptRun, Row, not_read
from rdmaprov.dossier.labels import MOST_ENDS, Place, label, of_rail, places
from rdmaprov.node.identity import DMI, MACHINE
from rdmaprov.node.standing import GPU_WORDS, MACHINE_WORDS, NIC_WORDS, VERSION_WORDS

_NVIDIA = "/proc/driver/nvidia/gpus/{}/information"
_KINDS = {"rail": ("NIC", "cable"), "gpu": ("GPU",)}
_FILES = {"guid": "node_guid", "board": "board_id", "firmware": "fw_ver"}


def identity_of(run: KeptRun, node: str) -> Mapping[str, Any]:
    """Return what a run read of a node's hardware; nothing if it did not."""
    found: Mapping[str, Any] = run.data["nodes"].get(node, {}).get("identity") or {}
    return found


def fields(runs: Sequence[KeptRun], run: KeptRun, node: str, accused: Row | None) -> Iterator[Row]:
    """Yield the serial numbers of a node's parts, of the run or of the one nearest to it."""
    having = [each for each in runs if identity_of(each, node)]
    here = min(having, key=lambda each: each.name != run.name, default=run)
    own = identity_of(here, node)
    for key, word in MACHINE_WORDS.items():
        read = f"cat /{DMI}/{MACHINE[key]}"
        text, why = own.get("machine", {}).get(key), "it is blank, or root alone may read it"
        yield label(here, f"chassis: {word}", text, read, why)
    of = accused["of"] if accused else ""
    for number, nic in enumerate(own.get("rails", ())):
        if accused is None or of != "rail" or _is_of(accused, number, nic):
            for key, word in NIC_WORDS.items():
                device = nic["rdma"]
                read = (
                    f"cat /sys/class/infiniband/{device}/{_FILES[key]}" if device else "rdma link"
                )
                yield here.field(f"rail {number}: {word}", nic[key], read)
            yield from of_rail(here, (node, number), nic)
    if of != "rail":
        for number, gpu in enumerate(own.get("gpus", ())):
            read = _NVIDIA.format(gpu["pci"])
            if accused is not None and of == "gpu" and not _is_of(accused, number, gpu):
                continue
            for key in ("uuid", "model", "vbios"):
                name = f"GPU {number} at {gpu['pci']}: {GPU_WORDS[key]}"
                yield label(here, name, gpu[key], f"cat {read}")
            name, read = f"GPU {number} at {gpu['pci']}: serial number", "nvidia-smi --query-gpu="
            yield label(here, name, gpu.get("serial"), f"{read}pci.bus_id,serial")
    if accused and of == "rail":
        yield from _link(runs, here, node, accused["rail"])


def _link(runs: Sequence[KeptRun], here: KeptRun, node: str, rail: int) -> Iterator[Row]:
    """Yield the port of the switch that a rail is on, and that nobody read the cable there."""
    found = not_read("switch port", "lldpctl, and on InfiniBand rdmaprov subnet, tell it")
    rails = identity_of(here, node).get("rails", ())
    for each in rails[rail].get("modules", ()) if rail < len(rails) else ():
        if each["switch"]:
            found = here.field("switch port", each["switch"], f"lldpctl {each['port']}")
    for run in runs:
        own = run.data["nodes"].get(node, {}) if run.data["verb"] == "subnet" else {}
        for each in own.get("rails", ()):
            if each["rail"] == rail and each["leaf"]:
                where = f"{each['leaf']} port {each['port']}"
                found = run.field("switch port", where, "ibnetdiscover")
    yield found
    yield not_read("cable: serial number at the switch", "on the switch; most DACs have the node's")


def versions(runs: Sequence[KeptRun], run: KeptRun, node: str) -> Iterator[Row]:
    """Yield the versions that a node ran with, of the run or of the one nearest to it."""
    having = [each for each in runs if each.data["nodes"].get(node, {}).get("versions")]
    here = min(having, key=lambda each: each.name != run.name, default=run)
    own = here.data["nodes"].get(node, {})
    for key, word in VERSION_WORDS.items():
        yield here.field(word, own.get("versions", {}).get(key))
    for key in ("torch", "nccl"):
        yield here.field(key, own.get(key))
    for number, version in enumerate(own.get("firmware", ())):
        yield here.field(f"rail {number}: {NIC_WORDS['firmware']}", version)


def moves(runs: Sequence[KeptRun], run: KeptRun, node: str, accused: Row | None) -> Iterator[Row]:
    """Yield what other runs say of the accused part elsewhere, and of another one in its place."""
    for kind in _KINDS.get(accused["of"], ()) if accused else ():
        parts = identity_of(run, node).get("gpus" if kind == "GPU" else "rails", ())
        for key, was in places(run, kind).items():
            for name, number in was if len(was) <= MOST_ENDS else ():  # else it is no cable's own
                if accused and name == node and _is_of(accused, number, parts[number]):
                    for each in runs:
                        yield from _moves(each, kind, key, was, (node, number))


def _moves(
    run: KeptRun, kind: str, key: tuple[str, ...], was: Sequence[Place], old: Place
) -> Iterator[Row]:
    """Yield what a run says of a part: where else it is, and what is in its old place."""
    of, now = "GPU" if kind == "GPU" else "rail", places(run, kind)
    row, left = {"part": kind, "serial": key[-1]}, _is_bad(run, *old, of)
    for at in (each for each in now.get(key, ()) if each not in was):
        there = _is_bad(run, *at, of)
        fault = "follows the part" if there and not left else "stays"
        fault = fault if there != left else "at both" if there else "at none"
        yield {**row, "now": f"{at[0]} {of} {at[1]}", "fault": fault, **run.origin}
    instead = [other for other, own in now.items() if old in own]
    if instead and key not in instead and run.data["verdict"] in ("ok", "failed"):
        where = f"elsewhere: {old[0]} {of} {old[1]} has {instead[0][-1]}"
        fault = "stays" if left else "gone with the part"
        yield {**row, "now": where, "fault": fault, **run.origin}


def _is_of(accused: Row, number: int, part: Mapping[str, str]) -> bool:
    """Return whether a part is the accused one, or one of those where none is named."""
    if accused["of"] == "rail":
        return bool(number == accused["rail"])
    return accused["gpu"] in ("", f"GPU {number}", part["pci"])


def _is_bad(run: KeptRun, node: str, number: int, of: str) -> bool:
    return any(
        row["proven"]
        and has_part(row)
        and (row["rail"] == number if of == "rail" else row["level"] in ("node", "rank"))
        for row in of_run(run, node)
    )
