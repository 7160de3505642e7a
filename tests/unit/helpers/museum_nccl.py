"""What our reader of NCCL's logs says of a museum's machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.unit.helpers.museum_devices import Said
from tests.unit.helpers.museum_node import MuseumNode

from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.events import DeviceList
from rdmaprov.nccl_log.line import parse_message, split_messages
from rdmaprov.nccl_log.matrix import Gdr


def nccl(node: MuseumNode, wanted: Mapping[str, Any]) -> Said:
    """Return the version, networks and devices of the captured logs."""
    logs = [each for each in node.museum.commands if "NCCL" in each.stdout]
    if not logs:
        return {}
    path = Path(node.root) / "nccl.log"
    path.write_text("".join(each.stdout for each in logs))
    matrix = transport.read_matrix([path])
    said = transport.verdict(matrix)
    listed = {name for line in _messages(path) for name in line}
    cuda = str(wanted.get("version")).partition("+")[1:]  # which no site writes
    every = {
        "version": said.nccl_version and said.nccl_version + "".join(cuda),
        "net": "+".join(sorted({each.network for each in matrix.channels})),
        "devices": sorted(listed or set(said.hcas)),
        "gdr": None if said.gdr is Gdr.UNKNOWN else said.gdr is not Gdr.NONE,
    }
    # What this part of a log does not show, it does not contradict.
    read = {key: wanted[key] if every[key] in (None, "", []) else every[key] for key in wanted}
    return {"suite": read} if any(every[key] not in (None, "", []) for key in wanted) else {}


def _messages(path: Path) -> Iterator[list[str]]:
    """Yield the RDMA devices of each line that lists them."""
    for text in path.read_bytes().splitlines():
        for _, _, message in split_messages(text):
            event = parse_message(message)
            if isinstance(event, DeviceList):
                yield [name for device in event.found for name in device.names]
