"""Lines of NCCL logs, added up: as much memory as the job has channels, however long the log."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from rdmaprov.nccl_log import events
from rdmaprov.nccl_log import line as log_line
from rdmaprov.nccl_log.completion import CompletionError, parse_completion
from rdmaprov.nccl_log.diagnostics import MARK, DiagnosticLine, parse_diagnostic
from rdmaprov.nccl_log.events import Source
from rdmaprov.nccl_log.troubles import TroubleTally

# (channel, sends, peer, network, device, gdr, collnet): a channel before its device has a name
ChannelKey = tuple[int, bool, int | None, str, int, bool, bool]
# A connection that broke is followed by one error for each of its requests. Of a process that
# writes more different ones than this, the rest says nothing new.
_MAX_ERRORS = 1024
# What hosts of a job have alike. Only NCCL before 2.22 names a "non-device net plugin".
_SAID = re.compile(
    rb"Using network ([\w -]{1,40})|(NCCL_\w{1,60}) set by environment to ([^\n]{0,80}?)\.?$"
    rb"|[NR]CCL version (\d[\w.]{1,20})|(Using non-device net plugin|NET/Plugin : dlerror)"
    rb"|NET/Plugin: Could not find: (libnccl-net)|Plugin Path : (?:\S*/)?(\S{1,40})"
)
_NAMES = {1: b"network", 4: b"NCCL", 5: b"before 2.22", 6: b"plugin", 7: b"plugin"}
# A rank prints some lines for each communicator; a node with thousands of bad ones says no more.
_MAX_DIAGNOSTICS = 4096
# A sweep has some 30 sizes, a training job some thousands.
_MAX_CHOICES = 1 << 16


@dataclass(slots=True)
class RankTally:
    """What one rank of one process said."""

    channels: set[ChannelKey] = field(default_factory=set)
    local: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class GpuTally:
    """One GPU of one process."""

    # its ranks, by number
    ranks: defaultdict[int, RankTally] = field(default_factory=lambda: defaultdict(RankTally))
    # size of its largest communicator, and its rank there; (0, None) if unsaid
    largest: tuple[int, int | None] = (0, None)
    latest: int = 0  # size of the communicator that it made last; 0 if unsaid
    # its completions with error, each once
    errors: dict[CompletionError, None] = field(default_factory=dict)
    pending: bool = False  # channels came after the last "Connected"
    complete: bool = False


@dataclass(slots=True)
class ProcessTally:
    """What a process said of its networks."""

    # the RDMA devices that NET/IB lists; None if it lists none
    devices: tuple[events.Device, ...] | None = None
    ambiguous: bool = False  # it listed different ones
    # devices that were made of others, by number
    merged: dict[int, tuple[str, ...]] = field(default_factory=dict)
    # what explains why a network was not used, by kind
    hints: dict[str, str] = field(default_factory=dict)
    plugin: str = ""  # what nccl-rdma-sharp-plugins sends by; empty without it
    # its network, version and variables of the environment, by name
    said: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class GroupTally:
    """A communicator: its ranks as sets of bits, and its number of nodes if a line has it."""

    ranks: int
    seen: int = 0
    complete: int = 0
    nodes: int | None = None


@dataclass(slots=True)
class Tally:
    """Everything that lines added up to."""

    gpus: defaultdict[Source, GpuTally] = field(default_factory=lambda: defaultdict(GpuTally))
    processes: defaultdict[tuple[str, int], ProcessTally] = field(
        default_factory=lambda: defaultdict(ProcessTally)
    )
    groups: dict[str, GroupTally] = field(default_factory=dict)
    opened: dict[tuple[Source, str], str] = field(
        default_factory=dict
    )  # communicators in the making
    net_peers: set[int] = field(default_factory=set)
    local_peers: set[int] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)
    choices: Counter[tuple[int, events.Tuning]] = field(default_factory=Counter)
    diagnostics: dict[DiagnosticLine, None] = field(default_factory=dict)
    troubles: TroubleTally = field(default_factory=TroubleTally)
    unreadable: int = 0
    first_unreadable: str = ""

    def add_line(self, line: bytes) -> bool:
        """Add a whole line; return whether it is NCCL's."""
        found = MARK in line
        said = parse_diagnostic(line) if found else None
        if said and len(self.diagnostics) < _MAX_DIAGNOSTICS:
            self.diagnostics[said] = None
        is_nccl = False
        for source, place, message in log_line.split_messages(line):
            found = is_nccl = True
            self.add_event(source, log_line.parse_message(message))
            self.troubles.add_message(source, place, message)
            if named := _SAID.match(message):
                value = named[1] or named[3] or named[4] or named[7] or b"none"
                own = self.processes[source[:2]].said
                own[(named[2] or _NAMES[named.lastindex or 0]).decode()] = value.decode("latin-1")
        if not is_nccl:
            found |= self.troubles.add_text(line)
            if b"Got completion" in line or b"ibv_modify_qp failed" in line:
                event, of = parse_completion(line), self.troubles.source
                if event and not of.host:
                    event = replace(event, rank=self.troubles.rank)
                self.add_event(of, event)
        version = log_line.parse_version(line)
        if version is not None:
            self.versions.add(version)
        return found or version is not None

    def add_cut_line(self, line: bytes) -> bool:
        """Add a last line that has no end: only what cannot be the beginning of another line."""
        found = False
        for source, place, message in log_line.split_messages(line):
            found = True
            self.troubles.add_message(source, place, message)
            event = log_line.parse_message(message)
            if _is_whole(event, message):
                self.add_event(source, event)
            elif message.startswith((b"Channel ", b"Coll")):
                self.gpus[source].pending = True
        return found

    def add_event(self, source: Source, event: log_line.LogEvent | None) -> None:
        """Add an event."""
        process = self.processes[source[:2]]
        match event:
            case events.NetChannel():
                self._add_net_channel(source, event)
            case events.LocalChannel():
                self._add_local_channel(source, event)
            case events.Connected():
                self.gpus[source].pending = False
            case events.Communicator():
                self._add_communicator(source, event)
            case events.DeviceList(found) if found:
                process.ambiguous |= process.devices not in (None, found)
                process.devices = found
            case events.MergedDevice(device, names):
                process.merged[device] = names
            case CompletionError() if len(self.gpus[source].errors) < _MAX_ERRORS:
                self.gpus[source].errors[event] = None
            case events.Tuning():
                choice = (self.gpus[source].latest, event)
                if choice in self.choices or len(self.choices) < _MAX_CHOICES:
                    self.choices[choice] += 1
            case events.Plugin(name):
                process.plugin = name
            case events.Hint(kind, text):
                process.hints.setdefault(kind, text)
            case events.Unreadable(text):
                self.unreadable += 1
                self.first_unreadable = self.first_unreadable or text

    def _add_net_channel(self, source: Source, event: events.NetChannel) -> None:
        gpu = self.gpus[source]
        # Send and receive connect a pair of ranks when it first talks, and say no more of it.
        lasting = event.connection == 0
        gpu.ranks[event.rank].channels.add(
            (
                event.channel,
                event.sends,
                event.peer if lasting else None,
                event.network,
                event.device,
                event.gdr,
                event.collnet,
            )
        )
        gpu.pending |= lasting
        if event.peer is not None:
            self.net_peers.add(event.peer)

    def _add_local_channel(self, source: Source, event: events.LocalChannel) -> None:
        gpu = self.gpus[source]
        gpu.ranks[event.rank].local[event.kind] += 1
        gpu.pending |= event.lasting or not gpu.complete
        self.local_peers.add(event.peer)

    def _add_communicator(self, source: Source, event: events.Communicator) -> None:
        mine = (source, event.pointer)
        gpu = self.gpus[source]
        gpu.latest = event.ranks
        if event.ranks > gpu.largest[0]:
            gpu.largest = (event.ranks, event.rank)
        key = event.identity or self.opened.get(mine) or f"{event.ranks} ranks"
        group = self.groups.setdefault(key, GroupTally(event.ranks))
        group.seen |= 1 << event.rank
        if event.nodes is not None:
            group.nodes = max(event.nodes, group.nodes or 0)
        if event.step == "START":
            self.opened[mine] = key
        elif event.step == "COMPLETE":
            group.complete |= 1 << event.rank
            self.opened.pop(mine, None)
            gpu.pending, gpu.complete = False, True


def _is_whole(event: log_line.LogEvent | None, message: bytes) -> bool:
    """Return whether a message without an end says all that it would have said."""
    match event:
        case events.Connected() | events.Hint():
            return True
        case events.NetChannel(gdr=True):
            return True
        case events.Communicator(step="COMPLETE"):
            return message.endswith(b"COMPLETE")
    return False
