"""Read ibnetdiscover: the report of ports (`-p`), and the topology without an option."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rdmaprov.subnet.model import Cable, Discovery, Kind, PortEnd

# Gb/s of one lane, as links are named (InfiniBand Architecture 1.7, table 254 and annex A18).
LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
_END = r"(SW|CA|RT)\s+([0-9]{1,20})\s+([0-9]{1,20})\s+(0x[0-9a-fA-F]{1,16})"
_LINK = re.compile(
    rf"{_END}\s+([0-9]{{1,20}})x\s+(.+?)\s+-\s+{_END}\s+\(\s'(.*)'\s-\s'(.*)'\s\)\s*$"
)
_FREE = re.compile(rf"{_END}\s+(.*?)\s+'(.*)'\s*$")
_NODE = re.compile(r'(Switch|Ca|Rt)\s+[0-9]{1,20}\s+"([SHR])-([0-9a-fA-F]+)"\s*#\s*"(.*)"(.*)$')
_LINE = re.compile(
    r'\[([0-9]{1,20})\](?:\[\w+\])?(?:\(([0-9a-fA-F]+)\))?\s+"([SHR])-([0-9a-fA-F]+)"\[([0-9]{1,20})\]'
    r"(?:\[\w+\])?(?:\(([0-9a-fA-F]+)\))?\s*(?:#(.*))?$"
)
_LID = re.compile(r"\blid ([0-9]{1,20})")
_RATE = re.compile(r"([0-9]{1,20})x(\w+)\s*$")
_NAME = re.compile(r'"(.*)"')
_KINDS = {"S": Kind.SWITCH, "H": Kind.HCA, "R": Kind.ROUTER}


def lane_gbps(speed: str) -> float:
    """Return the rate of one lane, in Gb/s; 0 if the name is unknown."""
    return LANE_GBPS.get(speed.strip().upper(), 0.0)


def read_discovery(lines: Iterable[str]) -> Discovery:
    """Return the links and free ports; either form of ibnetdiscover is accepted.

    A last line without an end, and a link that one end alone lists, show that the text is cut.
    """
    ports: dict[tuple[int, int], tuple[PortEnd, Cable | None]] = {}
    last = "\n"
    topology = _Topology()
    for line in lines:
        last = line
        text = line.strip()
        for end, cable in _ports(text) or topology.ports(text):
            ports[end.key] = (end, cable)
    return _joined(ports, topology.names, is_cut=not last.endswith("\n"))


def _ports(text: str) -> list[tuple[PortEnd, Cable | None]]:
    """Return the port of a line of `-p`."""
    if link := _LINK.match(text):
        near = _end(link.group(1, 2, 3, 4), link[11])
        far = _end(link.group(7, 8, 9, 10), link[12])
        return [(near, Cable(near, far, int(link[5]), lane_gbps(link[6]), link[6]))]
    if free := _FREE.match(text):
        return [(_end(free.group(1, 2, 3, 4), free[6]), None)]
    return []


def _end(parts: tuple[str | None, ...], name: str) -> PortEnd:
    kind, lid, port, guid = (part or "0" for part in parts)
    return PortEnd(Kind(kind), int(guid, 16), int(lid), int(port), name)


class _Topology:
    """The topology file, which says a node's name in its head and its ports below it."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._head: PortEnd | None = None

    def ports(self, text: str) -> Iterator[tuple[PortEnd, Cable | None]]:
        if head := _NODE.match(text):
            lid = _LID.search(head[5])
            guid = int(head[3], 16)
            self.names[guid] = head[4]
            self._head = PortEnd(_KINDS[head[2]], guid, int(lid[1]) if lid else 0, 0, head[4])
        elif self._head and (found := _LINE.match(text)):
            yield self._port(self._head, found)

    def _port(self, head: PortEnd, found: re.Match[str]) -> tuple[PortEnd, Cable | None]:
        own, rest = int(found[1]), found[7] or ""
        lids = [int(each) for each in _LID.findall(rest)]
        rate, name = _RATE.search(rest), _NAME.search(rest)
        # The line of an HCA has its own LID first, then that of its peer.
        own_lid = head.lid if head.kind is Kind.SWITCH else (lids[0] if lids else 0)
        near = replace(head, port=own, lid=own_lid, guid=int(found[2] or "0", 16) or head.guid)
        kind = _KINDS[found[3]]
        guid = int(found[4], 16)
        if kind is not Kind.SWITCH and found[6]:
            guid = int(found[6], 16)
        far = PortEnd(kind, guid, lids[-1] if lids else 0, int(found[5]), name[1] if name else "")
        width, speed = (int(rate[1]), rate[2]) if rate else (0, "")
        return near, Cable(near, far, width, lane_gbps(speed), speed)


def _joined(
    ports: dict[tuple[int, int], tuple[PortEnd, Cable | None]],
    names: dict[int, str],
    *,
    is_cut: bool,
) -> Discovery:
    """Return each link once; a far end without a line of its own shows a cut text."""
    cables, free = [], []
    seen: set[tuple[int, int]] = set()
    for end, cable in ports.values():
        if cable is None:
            free.append(end)
            continue
        known = ports.get(cable.far.key)
        is_cut = is_cut or known is None
        if end.key in seen:
            continue
        seen.update((end.key, cable.far.key))
        far = known[0] if known else cable.far
        cables.append(
            replace(cable, far=far if far.name else replace(far, name=names.get(far.guid, "")))
        )
    return Discovery(tuple(cables), tuple(free), is_cut)
