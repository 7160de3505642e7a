"""NCCL's log files, read line by line in bounded memory, and the matrix that they add up to."""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.nccl_log.completion import CompletionError
from rdmaprov.nccl_log.events import Source
from rdmaprov.nccl_log.matrix import Channel, LogRank, Matrix, Process, RankConnections, Transport
from rdmaprov.nccl_log.tally import ChannelKey, ProcessTally, Tally
from rdmaprov.nccl_log.tuning import AlgorithmChoice
from rdmaprov.problem import printable
from rdmaprov.words import some

STDIN = Path("-")
_CHUNK_BYTES = 1 << 20
_LINE_BYTES = 1 << 20  # NCCL's own lines are at most 2 KiB; what is longer is cut into pieces
_HOW_TO_LOG = "Run the job with NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log"
# Networks of verbs, which run on InfiniBand and RoCE alike: NCCL's own, that of
# nccl-rdma-sharp-plugins (and its CollNet, SHARP), and Google's. UCX and others choose their
# transport themselves, so their names prove none.
_VERBS = re.compile(r"IB|IBext(?:_v\d+)?|gIB|SHARP")
# The name of nccl-rdma-sharp-plugins where its API is older than NCCL's (src/plugin/net/net_v6.cc
# to net_v11.cc of NCCL print the plugin's name): verbs or UCX, which `P2P plugin` says. Its first
# interface, v4, has no number.
_RDMA_PLUGIN = re.compile(r"NCCL RDMA Plugin(?: v\d+)?")
_SOCKET = {"Socket", "FastSocket"}
_OFI = {"AWS Libfabric", "Libfabric", "OFI"}  # aws-ofi-nccl, by version
_LAYERS = {"IB": Transport.IB, "RoCE": Transport.ROCE}
_NODES_SINCE = (2, 20)  # NCCL writes each communicator's number of nodes


class UnreadableLogError(RdmaprovError):
    """A file is no log of NCCL's, so nothing is known about the job."""

    exit_code = ExitCode.UNKNOWN


def read_logs(files: Iterable[Path]) -> tuple[Tally, tuple[str, ...]]:
    """Return what the files add up to, and those of them without a line of NCCL's; `-` is stdin.

    Raises:
        UsageError: a file is missing or is a directory.
        UnreadableLogError: a file is binary, or none has a line of NCCL's.
    """
    tally = Tally()
    names, silent = [], []
    for file in files:
        names.append(str(file))
        tally.troubles.begin_file(str(file))
        if not _add_file(file, tally):
            silent.append(str(file))
    if len(silent) == len(names):
        raise UnreadableLogError(
            f"{printable(some(names, 3))}: no line of NCCL (`NCCL INFO`)", _HOW_TO_LOG
        )
    return tally, tuple(silent)


def read_streams(streams: Iterable[tuple[str, BinaryIO]]) -> tuple[Tally, tuple[str, ...]]:
    """Return what open logs add up to, and the names of those without a line of NCCL's.

    One without a line of NCCL's is not refused.

    Args:
        streams: name and bytes of each.

    Raises:
        UnreadableLogError: one is binary.
    """
    tally, silent = Tally(), []
    for name, stream in streams:
        tally.troubles.begin_file(name)
        if not _add_lines(stream, name, tally):
            silent.append(name)
    return tally, tuple(silent)


def read_texts(texts: Iterable[tuple[str, str]]) -> tuple[Tally, tuple[str, ...]]:
    """Return what logs in memory add up to, and the names of those without a line of NCCL's.

    None is refused: of a run's own logs, one that says nothing is a result.
    """
    tally, silent = Tally(), []
    for name, text in texts:
        tally.troubles.begin_file(name)
        *lines, last = text.encode(errors="replace").split(b"\n")
        found = sum(
            tally.add_line(line) for line in lines if b"CCL" in line or tally.troubles.wants(line)
        )
        if not tally.add_cut_line(last) and not found:
            silent.append(name)
    return tally, tuple(silent)


def _add_file(file: Path, tally: Tally) -> bool:
    if file == STDIN:
        return _add_lines(sys.stdin.buffer, "standard input", tally)
    name = printable(str(file))
    try:
        with file.open("rb") as stream:
            return _add_lines(stream, name, tally)
    except IsADirectoryError:
        raise UsageError(f"{name}: is a directory", f"Pass the logs in it: {name}/*") from None
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", "Pass the log of each rank.") from None


def _add_lines(stream: BinaryIO, name: str, tally: Tally) -> bool:
    """Add a stream's lines; return whether one of them is NCCL's."""
    found, rest, first, wants = False, b"", True, tally.troubles.wants
    while chunk := stream.read(_CHUNK_BYTES):
        if first:
            refuse_binary(chunk, name)
            first = False
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            # Most lines of a training job are not NCCL's, or RCCL's, and name no error.
            if b"CCL" in line or wants(line):
                found |= tally.add_line(line)
        if len(rest) > _LINE_BYTES:
            rest = rest[-_CHUNK_BYTES // 16 :]
    if first:
        return False
    return tally.add_cut_line(rest) or found


# How compressed files begin, and what unpacks them.
PACKED = {
    b"\x1f\x8b": "zcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
    b"\xfd7zXZ": "xzcat",
    b"BZh": "bzcat",
}


def refuse_binary(chunk: bytes, name: str) -> None:
    """Raise an error for the beginning of a file that is no text."""
    if chunk.startswith(tuple(PACKED)):
        raise UnreadableLogError(
            f"{name}: is compressed", "Decompress it: zcat FILE | rdmaprov explain nccl-log -"
        )
    # A crashed node leaves holes of zeros in a log; programs and UTF-16 have them throughout.
    if sum(chunk.count(control) for control in range(8)) * 100 > len(chunk):
        raise UnreadableLogError(f"{name}: is binary, not a log", _HOW_TO_LOG)


def make_matrix(tally: Tally, silent: tuple[str, ...]) -> Matrix:
    """Return the tally as a matrix, devices with their names and link layers where it has them."""
    channels = tuple(sorted(_channels(tally), key=_sort_key))
    size, absent = _absent_ranks(tally)
    return Matrix(
        channels=channels,
        members=tuple(sorted(_members(tally), key=lambda member: member.rank)),
        processes=tuple(_processes(tally)),
        local_only=not channels and _is_local_only(tally),
        size=size,
        absent=absent,
        unfinished_hosts=frozenset(source.host for source in _cut_sources(tally)),
        unfinished=tuple(sorted(_unfinished_sources(tally, absent))),
        unreadable=(tally.unreadable, tally.first_unreadable),
        silent=silent,
        versions=tuple(sorted(tally.versions)),
        errors=tuple(_errors(tally)),
        choices=algorithm_choices(tally),
        diagnostics=tuple(tally.diagnostics),
        broken=tally.troubles.name_ranks(_rank_of_processes(tally)),
    )


def _sort_key(channel: Channel) -> tuple[LogRank, int, bool, int]:
    return channel.rank, channel.number, not channel.sends, channel.peer or 0


def _members(tally: Tally) -> Iterator[RankConnections]:
    for source, gpu in tally.gpus.items():
        for number, rank in gpu.ranks.items():
            yield RankConnections(LogRank(number, *source), dict(sorted(rank.local.items())))


def _channels(tally: Tally) -> Iterator[Channel]:
    nothing = ProcessTally()
    for source, gpu in tally.gpus.items():
        process = tally.processes.get(source[:2], nothing)
        for number, rank in gpu.ranks.items():
            who = LogRank(number, *source)
            for seen in rank.channels:
                yield _channel(who, seen, process)


def _channel(rank: LogRank, seen: ChannelKey, process: ProcessTally) -> Channel:
    number, sends, peer, network, device, gdr, collnet = seen
    transport, hcas = resolve_device(process, network, device)
    return Channel(rank, number, sends, peer, transport, network, device, hcas, gdr, collnet)


def resolve_device(
    process: ProcessTally, network: str, device: int
) -> tuple[Transport, tuple[str, ...]]:
    """Return a device's transport and names, as far as its own process said them."""
    if network in _SOCKET:
        return Transport.SOCKET, ()
    if network in _OFI:
        return Transport.OFI, ()
    if not _is_verbs(process, network) or process.devices is None or process.ambiguous:
        return Transport.UNKNOWN, ()
    if device in process.merged:
        names = process.merged[device]
        return _link_layer(process, names), names
    if device < len(process.devices):
        names = process.devices[device].names
        return _link_layer(process, names), names
    return _link_layer(process, ()), ()  # merged, and the log does not say of which


def _is_verbs(process: ProcessTally, network: str) -> bool:
    """Return whether a network is one of verbs; its devices must be listed, too."""
    if _RDMA_PLUGIN.fullmatch(network):
        return process.plugin.startswith("IB") or not process.plugin
    return _VERBS.fullmatch(network) is not None


def _link_layer(process: ProcessTally, names: tuple[str, ...]) -> Transport:
    """Return the link layer of devices; of all of the process's when these are not in its list."""
    listed = process.devices or ()
    mine = [device for device in listed if set(names) & set(device.names)]
    layers = {layer for device in mine or listed for layer in device.layers}
    return _LAYERS[layers.pop()] if len(layers) == 1 else Transport.UNKNOWN


def _processes(tally: Tally) -> Iterator[Process]:
    for (host, pid), process in sorted(tally.processes.items()):
        names = [name for device in process.devices or () for name in device.names]
        yield Process(host, pid, tuple(names), process.hints, process.said)


def algorithm_choices(tally: Tally) -> tuple[AlgorithmChoice, ...]:
    """Return the algorithms that were taken, by communicator and size."""
    counts = tally.choices.items()
    return tuple(sorted(AlgorithmChoice(ranks, *choice, n) for (ranks, choice), n in counts))


def _errors(tally: Tally) -> Iterator[CompletionError]:
    """Yield the completions with error in the order of the logs, by process."""
    for source, gpu in tally.gpus.items():
        only = next(iter(gpu.ranks)) if len(gpu.ranks) == 1 else None
        rank = gpu.largest[1] if gpu.largest[0] else only
        for found in gpu.errors:
            yield replace(found, host=source.host, rank=rank if found.rank is None else found.rank)


def _rank_of_processes(tally: Tally) -> dict[tuple[str, int], int]:
    """Return the rank of each process that has one alone."""
    found: dict[tuple[str, int], set[int]] = {}
    for source, gpu in tally.gpus.items():
        if gpu.largest[1] is not None and source.host:
            found.setdefault(source[:2], set()).add(gpu.largest[1])
    return {process: ranks.pop() for process, ranks in found.items() if len(ranks) == 1}


def _present_ranks(tally: Tally) -> set[int]:
    return {number for gpu in tally.gpus.values() for number in gpu.ranks}


def _cut_sources(tally: Tally) -> set[Source]:
    """Return whose log ends within a communicator's making, or within its channels."""
    sources = {source for source, _ in tally.opened}
    return sources | {source for source, gpu in tally.gpus.items() if gpu.pending}


def _unfinished_sources(tally: Tally, absent: tuple[int, ...]) -> set[str]:
    """Return who was cut off: within a communicator's making, within channels, or before them."""
    sources = _cut_sources(tally)
    # Both ends of a channel through a network write a line.
    silent = tally.net_peers - _present_ranks(tally) - set(absent)
    return {f"rank {number}" for number in silent} | {
        f"{source.host or '?'} gpu {source.gpu}"
        + (f" (rank {min(ranks)})" if (ranks := tally.gpus[source].ranks) else "")
        for source in sources
    }


def _absent_ranks(tally: Tally) -> tuple[int, tuple[int, ...]]:
    """Return the largest communicator's size, and its ranks of which there is no line."""
    present = _present_ranks(tally)
    if not tally.groups:
        return 0, tuple(sorted((tally.net_peers | tally.local_peers) - present))
    group = max(tally.groups.values(), key=lambda one: one.ranks)
    # With several communicators, a channel's numbers may be those of another one.
    seen = present if len(tally.groups) == 1 else set()
    missing = (n for n in range(group.ranks) if not group.seen >> n & 1 and n not in seen)
    return group.ranks, tuple(missing)


def _is_local_only(tally: Tally) -> bool:
    """Return whether it is proven that nothing leaves a node, where no line says otherwise."""
    groups = tally.groups.values()
    local = any(rank.local for gpu in tally.gpus.values() for rank in gpu.ranks.values())
    if any(group.nodes is not None for group in groups):
        return all(group.nodes == 1 for group in groups)
    if groups:
        # Without the number of nodes: these versions connect everything before `Init COMPLETE`.
        early = all(_version_number(version) < _NODES_SINCE for version in tally.versions)
        everyone = all(group.complete == (1 << group.ranks) - 1 for group in groups)
        return early and everyone and (local or all(group.ranks == 1 for group in groups))
    # A ring connects all ranks: where each peer has its own lines, no rank is outside.
    pending = any(gpu.pending for gpu in tally.gpus.values())
    return local and not pending and tally.local_peers <= _present_ranks(tally)


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))  # 2.27.0a0 is one of 2.27
