"""The parts of a node with their serial numbers, and whether a fault follows one elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.dossier.findings import has_part, of_run
from rdmaprov.dossier.kept import KeptRun, Row, not_read
from rdmaprov.node.identity import DMI, MACHINE
from rdmaprov.node.standing import GPU_WORDS, MACHINE_WORDS, NIC_WORDS, VERSION_WORDS

_NVIDIA = "/proc/driver/nvidia/gpus/{}/information"
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
        yield here.field(f"chassis: {word}", own.get("machine", {}).get(key), read)
    of = accused["of"] if accused else ""
    for number, nic in enumerate(own.get("rails", ())):
        if accused is None or of != "rail" or _is_of(accused, number, nic):
            for key, word in NIC_WORDS.items():
                device = nic["rdma"]
                read = (
                    f"cat /sys/class/infiniband/{device}/{_FILES[key]}" if device else "rdma link"
                )
                yield here.field(f"rail {number}: {word}", nic[key], read)
    if of != "rail":
        for number, gpu in enumerate(own.get("gpus", ())):
            read = _NVIDIA.format(gpu["pci"])
            if accused is not None and of == "gpu" and not _is_of(accused, number, gpu):
                continue
            for key in ("uuid", "model", "vbios"):
                name = f"GPU {number} at {gpu['pci']}: {GPU_WORDS[key]}"
                yield here.field(name, gpu[key], f"cat {read}")
            name = f"GPU {number} at {gpu['pci']}: serial number"
            yield here.field(name, gpu.get("serial"), "nvidia-smi --query-gpu=pci.bus_id,serial")
    if accused and of == "rail":
        yield from _link(runs, node, accused["rail"])


def _link(runs: Sequence[KeptRun], node: str, rail: int) -> Iterator[Row]:
    """Yield the port of the switch that a rail is on, and the cable, which no run keeps yet."""
    found = not_read("switch port", "rdmaprov subnet keeps it, on InfiniBand")
    for run in runs:
        own = run.data["nodes"].get(node, {}) if run.data["verb"] == "subnet" else {}
        for each in own.get("rails", ()):
            if each["rail"] == rail and each["leaf"]:
                where = f"{each['leaf']} port {each['port']}"
                found = run.field("switch port", where, "ibnetdiscover")
    yield found
    yield not_read("cable: serial number at the node", "on the node: mlxlink -m, ethtool -m")
    yield not_read("cable: serial number at the switch", "on the switch")


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
    """Yield where the accused part was in other runs, and whether the fault was there too."""
    of = accused["of"] if accused else ""
    if accused is None or of not in ("rail", "gpu"):
        return
    parts, serial = ("rails", "guid") if of == "rail" else ("gpus", "uuid")
    was = {part[serial]: n for n, part in _numbered(run, node, parts) if _is_of(accused, n, part)}
    for each in runs:
        for name in each.data["nodes"]:
            for number, part in _numbered(each, name, parts):
                old = was.get(part[serial]) if part[serial] else None
                if old is not None and (name, number) != (node, old):
                    there, left = _is_bad(each, name, number, of), _is_bad(each, node, old, of)
                    fault = "follows the part" if there and not left else "stays"
                    fault = fault if there != left else "at both" if there else "at none"
                    where = f"{name} {'rail' if of == 'rail' else 'GPU'} {number}"
                    yield {"serial": part[serial], "now": where, "fault": fault, **each.origin}


def _numbered(run: KeptRun, node: str, parts: str) -> list[tuple[int, Mapping[str, str]]]:
    return list(enumerate(identity_of(run, node).get(parts, ())))


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
