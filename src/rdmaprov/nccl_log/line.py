"""What one line of an NCCL log says.

The formats are those of NCCL's INFO calls, read in its source at the tags v2.8.3-1 to v2.30.7-1:
src/debug.cc (prefix), src/init.cc (communicators), src/transport/generic.cc ("Connected"),
src/transport/{net,coll_net,p2p,shm,net_ib}.cc (channels, devices). docs/nccl-forms.md lists them
by version. What comes before NCCL's prefix (`[rank3]:`, `12: `, `[1,4]<stdout>:`, a time) does not
matter.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from rdmaprov.nccl_log.completion import CompletionError, parse_completion
from rdmaprov.nccl_log.events import (
    Communicator,
    Connected,
    Device,
    DeviceList,
    Hint,
    LocalChannel,
    MergedDevice,
    NetChannel,
    Plugin,
    Source,
    Tuning,
    Unreadable,
)
from rdmaprov.nccl_log.tuning import parse_tuning

LogEvent = (
    NetChannel
    | LocalChannel
    | Communicator
    | DeviceList
    | MergedDevice
    | Connected
    | Hint
    | CompletionError
    | Tuning
    | Plugin
    | Unreadable
)
_NOBODY = Source("", 0, -1)
_MAX_RANKS = 1 << 20  # a number beyond it is a garbled line
_PREFIX_BYTES = 400  # a host's name and three numbers; a WARN also names its place in the source
_MARK = re.compile(rb"NCCL (?:INFO|WARN) ")
_WARN = b"NCCL WARN "
_SOURCE = re.compile(
    rb"([^\s:\[\]]*):(\d{1,9}):\d+ \[(-?\d{1,9})\]"
    rb"(?: ((?:\w[\w ]{0,60} \S{1,80}\([^()]{0,200}\)|\S+):\d+)(?: \([^)]*\))?)? $"
)
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
# Not "compiled with NCCL version 2.28.3, but is running with ...", a WARN of 2.29 and later.
# AMD's: "RCCL version 2.18.3+hip5.7 HEAD:b502725", later "RCCL version : 2.22.3-HEAD:7d8d67c".
_VERSION = re.compile(
    rb"(?<!with )[NR]CCL version (?:: )?(\d{1,3}\.\d{1,3}\.\d{1,3}(?:(?:a|b|rc)\d{1,3})?)"
    rb"(?:\S*\+(?:cuda|hip)|-\S+\s*$|\s*$)"
)
_END = rb"\[[-0-9a-f]+\]"  # PCI bus number until 2.17, index of the GPU since 2.18
_PAIR = rb"Channel (\d{1,9})(?:/(\d{1,9}))? : (\d{1,9})" + _END + rb" -> (\d{1,9})" + _END
_RCCL = rb"(?: comm \S+ nRanks \d+)?"
_NET = re.compile(
    _PAIR
    + rb" \[(send|receive)\] via NET/(.+?)/(\d{1,9})(?:\(\d+\))?"
    + rb"(/GDRDMA)?(?:\(PCI\))?(/Shared)?(?:/flush=\w+)?"  # flush: seen in a log of 2.31
    + _RCCL
)
_LOCAL = re.compile(_PAIR + rb" via (P2P/[\w ]+|SHM|direct shared memory)(?:/\S+)?" + _RCCL)
_COLLNET = re.compile(
    rb"Coll(?:Net)? (\d{1,9})(?:/(\d{1,9}))? : (\d{1,9}) \[(send|receive)\]"
    rb" via COLLNET/(.+?)/(\d{1,9})(/GDRDMA)?(?:\(PCI\))?"
)
_COMM = re.compile(
    rb"(?:\[Rank \d+\] )?(?:\w+ )?comm (\S+) rank (\d{1,9}) n[rR]anks (\d{1,9}) (.*)"
)
_COMM_ID = re.compile(rb"commId (0x[0-9a-f]+)")
_NODES = re.compile(rb"nNodes (\d{1,9})")
_STEP = re.compile(rb"- Init (START|COMPLETE)")
_USING = re.compile(rb"NET/(?:IB|gIB) : Using (.*)")
_LISTED = re.compile(rb"\[\d+\]=\{([^}]*)(\}?)|(\[\d+\]\S+)")
_PORT = re.compile(rb"\[\d+\] ?([^\s:,]+):\d+(?::\d*){0,2}/(IB|RoCE)\b")
_MERGED = re.compile(rb"NET/IB : Made virtual device \[(\d{1,9})\] name=(\S+) ")
_PLUGIN = re.compile(rb"P2P plugin (?:v\d{1,3} )?(\w{1,32})")
_HINTS = {
    "ib_disabled": rb"NCCL_IB(?:EXT)?_DISABLE set by environment to [1-9]",
    "net": rb"NCCL_NET set by environment to \S+",
    "ib_hca": rb"NCCL_IB_HCA set (?:by environment )?to \S+",
    "no_device": rb"NET/IB : No device found",
    "no_library": rb"Failed to open libibverbs",
    "plugin_failed": rb"(?:Failed to initialize NET|External network) plugin \S+",
    "no_module": rb"NET/\S+ ?: GPU Direct RDMA Disabled for HCA \d+ '[^']+'",
    # src/graph/paths.cc, to 2.29; with a prefix to 2.7.
    "distance": rb"(?:NET/IB : )?GPU Direct RDMA Disabled for GPU \S+ / HCA \S+ \(distance [^)]+\)",
    "gdr_level": rb"NCCL_NET_GDR_LEVEL set by environment to \S+",
    "gdr_read": rb"NCCL_NET_GDR_READ set by environment to \S+",
    # Reduction by the switches: NCCL src/init.cc, src/transport.cc; nccl-rdma-sharp-plugins
    # src/sharp_plugin.c.
    "collnet": rb"NCCL_COLLNET_ENABLE set by environment to \d+",
    "collnet_nodes": rb"Communicator has \d+ nodes which is less than CollNet node threshold \d+",
    "collnet_failed": rb"Cannot initialize CollNet, using [^\n]{1,40}",
    "collnet_devices": rb"Rank \d+: 0 CollNet devices",
    "sharp_init": rb"(?:NET/IB ?: ?)?SHARP coll init error: [^\n]{1,80}",
    "sharp_group": rb"SHARP group create(?: failed)?: [^\n]{1,80}",
    "sharp_size": rb"SHARP: Group size:\d+ is less than threshold:\d+",
    "sharp_types": rb"SHARP(?:: unsupported data type| \S+ Datatypes not supported)",
}
# A tuner plugin by versions: 2.19 and 2.20; 2.21 to 2.27; 2.28 and later (src/plugin/tuner.cc,
# src/plugin/plugin_open.cc).
_HINTS |= {
    "tuner": rb"Using tuner plugin: '[^']+'|TUNER/Plugin: Using (?!internal)(?:tuner plugin )?\S+"
    rb"|Successfully loaded external tuner plugin \S+",
    "no_tuner": rb"Tuner: (?:no plugin found|plugin load|failed to find) .{1,200}"
    rb"|TUNER/Plugin: (?!Failed to find ncclTunerPlugin_v[3-9]|Plugin name set|NCCL_TUNER_PLUGIN "
    rb"set|Closing tuner|Using (?!internal)).{1,200}|External tuner plugin \S+ is unsupported",
}
_HINT = re.compile(b"|".join(b"(?P<%s>%s)" % (k.encode(), v) for k, v in _HINTS.items()))


def without_colours(line: bytes) -> bytes:
    """Return a line without what colours it in a terminal."""
    return _COLOUR.sub(b"", line) if b"\x1b" in line else line


def split_messages(line: bytes) -> Iterator[tuple[Source, bytes, bytes]]:
    """Yield NCCL's messages on a line, several when a newline was lost.

    Before each come who wrote it and, of a WARN alone, its place in NCCL's source.
    """
    line = without_colours(line)
    begin, source, place, body = 0, None, b"", 0
    for mark in _MARK.finditer(line):
        prefix = _SOURCE.search(line, max(begin, mark.start() - _PREFIX_BYTES), mark.start())
        if source is not None:
            yield source, place, line[body : prefix.start() if prefix else mark.start()].strip()
        source, body = _make_source(*prefix.groups()[:3]) if prefix else _NOBODY, mark.end()
        place = b""
        if mark[0] == _WARN:
            place = ((prefix and prefix[4]) or b"?") + b" NCCL WARN"
        begin = body
    if source is not None:
        yield source, place, line[body:].strip()


@lru_cache(maxsize=1 << 14)
def _make_source(host: bytes, pid: bytes, gpu: bytes) -> Source:
    return Source(host.decode(errors="replace"), int(pid), int(gpu))


def parse_version(line: bytes) -> str | None:
    """Return the version that a line names; until 2.26 it may come without NCCL's prefix."""
    found = _VERSION.search(line) if b"CCL version " in line else None
    return found[1].decode() if found else None


def parse_message(message: bytes) -> LogEvent | None:
    """Return a message as an event, None if it is not about transports."""
    if message.startswith(b"Channel "):
        return _parse_channel(message)
    if message.startswith(b"Coll"):
        return _parse_collnet(message)
    if b"Connected " in message:
        return Connected() if _CONNECTED.match(message) else None
    if b"comm " in message:
        return _parse_communicator(message)
    if b"Got completion" in message or b"ibv_modify_qp failed" in message:
        return parse_completion(message)
    if b" Bytes -> " in message:
        return parse_tuning(message)
    if found := _PLUGIN.match(message):
        return Plugin(found[1].decode(errors="replace"))
    if message.startswith(b"NET/") and (event := _parse_network(message)):
        return event
    return parse_hint(message)


def _parse_channel(message: bytes) -> LogEvent | None:
    if found := _NET.fullmatch(message):
        channel, connection, source, target, way, network, device, gdr, shared = found.groups()
        sends = way == b"send"
        return NetChannel(
            int(channel),
            int(connection or (1 if shared else 0)),
            int(source if sends else target),
            int(target if sends else source),
            sends,
            network.decode(errors="replace"),
            int(device),
            gdr is not None,
            collnet=False,
        )
    if found := _LOCAL.fullmatch(message):
        _, connection, source, target, kind = found.groups()
        return LocalChannel(int(source), int(target), kind.decode(), connection == b"0")
    # `Channel 00/02 :    0   1` is the order of a ring.
    return _unreadable(message) if b"[" in message or b"->" in message else None


def _parse_collnet(message: bytes) -> LogEvent | None:
    found = _COLLNET.fullmatch(message)
    if found is None:
        return _unreadable(message) if b" via " in message else None
    channel, connection, rank, way, network, device, gdr = found.groups()
    return NetChannel(
        int(channel),
        int(connection or 0),
        int(rank),
        None,
        way == b"send",
        network.decode(errors="replace"),
        int(device),
        gdr is not None,
        collnet=True,
    )


def _unreadable(message: bytes) -> Unreadable:
    return Unreadable(message[:200].decode(errors="replace"))


_CONNECTED = re.compile(
    rb"(?:rank \d+ )?Connected (?:all rings|all trees|NVLS tree|binomial trees|Coll[nN]et|collnet)"
)


def _parse_communicator(message: bytes) -> Communicator | None:
    found = _COMM.match(message)
    if found is None:
        return None
    pointer, rank, ranks, rest = found.groups()
    identity, nodes, step = _COMM_ID.search(rest), _NODES.search(rest), _STEP.search(rest)
    if (nodes is None and step is None) or not int(rank) < int(ranks) <= _MAX_RANKS:
        return None
    return Communicator(
        pointer.decode(errors="replace"),
        int(rank),
        int(ranks),
        identity[1].decode() if identity else None,
        int(nodes[1]) if nodes else None,
        step[1].decode() if step else "",
    )


def _parse_network(message: bytes) -> DeviceList | MergedDevice | None:
    if found := _USING.match(message):
        return DeviceList(tuple(_parse_devices(found[1])))
    if found := _MERGED.match(message):
        names = found[2].decode(errors="replace").split("+")
        return MergedDevice(int(found[1]), tuple(name.removesuffix("_dma") for name in names))
    return None


def _parse_devices(listed: bytes) -> Iterator[Device]:
    """Yield the devices in NCCL's order, which is how channels number them.

    The numbers in the brackets are not used: between 2.20 and 2.23 they count ports, not merged
    devices. NCCL cuts a line after 1 KiB; a device that is not whole ends the list.
    """
    for merged, closed, single in _LISTED.findall(listed):
        ports = _PORT.findall(merged or single)
        if not ports or (merged and not closed):
            return
        # Data Direct, the function of ConnectX-8 beside a GPU, is no RDMA device of its own: NCCL
        # lists it by the name of the NIC's device and a suffix.
        names = tuple(name.decode(errors="replace").removesuffix("_dma") for name, _ in ports)
        yield Device(names, frozenset(layer.decode() for _, layer in ports))


def parse_hint(message: bytes) -> Hint | None:
    """Return what a message says of the choice of a transport, None if it is no such message."""
    found = _HINT.match(message)
    if found is None or found.lastgroup is None:
        return None
    return Hint(found.lastgroup, found[0].decode(errors="replace"))
