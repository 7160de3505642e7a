"""NCCL's logs of a made-up job, by node: lines as NCCL 2.27 writes them.

The forms are those that nccl_log/line.py reads and tests/fixtures/nccl has. A node's ranks list
their communicators, their channels between nodes and, once for each rank, those within the node;
in reality the latter repeat for each channel.
"""

import io
import tarfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.madeup.collectives import PROTOCOLS
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.network import CHANNELS_PER_RAIL
from tests.madeup.nodes import MANAGEMENT, management_address, rail_address
from tests.madeup.work import WorkDone

from rdmaprov.acceptance.ranks.plan import GateJob, Task
from rdmaprov.acceptance.ranks.request import NCCL_DEBUG

_VERSION = "2.27.5"
_CONNECTED = {
    "RING": "Connected all rings, use ring PXN 0 GDR 1",
    "TREE": "Connected all trees",
    "NVLS_TREE": "Connected NVLS tree",
    "NVLS": "Connected NVLS tree",
    "COLLNET_DIRECT": "rank 0 Connected CollNet",
}


# What NCCL 2.23 and nccl-rdma-sharp-plugins wrote where SHARP was not used, by what was wrong:
# lines of nccl-tests#311 and nccl#1050, and of NCCL src/init.cc.
_NO_TREE = (
    "NCCL_COLLNET_ENABLE set by environment to 1.",
    "NET/IB : SHARP coll init error: Cannot create SHARP job(-11)",
    "Cannot initialize CollNet, using point-to-point network instead",
)
NO_SHARP = {
    "no manager": _NO_TREE,
    "no plugin": _NO_TREE[:1],
    "off": ("NCCL_COLLNET_ENABLE set by environment to 0.",),
    "threshold": (
        _NO_TREE[0],
        "Communicator has 8 nodes which is less than CollNet node threshold 16, disabling CollNet",
    ),
}


@dataclass
class JobLogs:
    fleet: MadeUpFleet
    job: GateJob
    lines: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    _seen: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    _made: int = 0
    _devices: dict[tuple[int, int], str] = field(default_factory=dict)
    _heads: dict[int, str] = field(default_factory=dict)

    def add_task(self, task: Task, done: WorkDone) -> None:
        """Write what ranks say of a task: new communicators, and the algorithm of each size."""
        fresh = [
            group
            for group, ranks in enumerate(task.groups)
            if (ranks, done.algorithms[group]) not in self._seen or task.collective == "exchange"
        ]
        for group in fresh:
            self._seen.add((task.groups[group], done.algorithms[group]))
            self._open(task.groups[group])
        if fresh:
            self._list_channels(task, done, set(fresh))
        for group in fresh:
            for rank in task.groups[group]:
                self._write(rank, _CONNECTED[done.algorithms[group]])
        if "TUNING" in NCCL_DEBUG["NCCL_DEBUG_SUBSYS"]:
            self._list_tuning(task, done)

    def begin_task(self, task: Task, connects: bool) -> None:
        """Write what ranks say until a task stops: without its channels, and perhaps its init."""
        for ranks in task.groups:
            self._open(ranks, connects)

    def _write(self, rank: int, text: str) -> None:
        if (head := self._heads.get(rank)) is None:
            node, gpu = self.job.node_of(rank), rank % self.job.per_node
            head = self._heads[rank] = f"{node}:{4000 + gpu}:{4100 + gpu} [{gpu}] NCCL INFO "
        self.lines[rank].append(head + text)

    def open_process(self, rank: int) -> None:
        fleet, node = self.fleet, self.fleet.number_of[self.job.node_of(rank)]
        environment = fleet.environment(self.job, node)
        version = fleet.condition.versions.get(node, {}).get("nccl", _VERSION)
        self._write(rank, f"NCCL version {version}+cuda12.9")
        for name, value in environment.items():
            said = "to" if name == "NCCL_IB_HCA" else "by environment to"
            self._write(rank, f"{name} set {said} {value}")
        if fleet.speaks_sockets(self.job, node):
            self._write(rank, "NET/IB : No device found.")
            self._write(rank, f"NET/Socket : Using [0]{MANAGEMENT}:{management_address(node)}<0>")
            self._write(rank, "Using network Socket")
            return
        kind = "RoCE" if fleet.shape.kind == "roce" else "IB"
        rails = fleet.rails(self.job, node, tuple(range(fleet.shape.gpus)))
        listed = " ".join(f"[{at}]mlx5_{rail}:1/{kind}" for at, rail in enumerate(rails))
        oob = f"{MANAGEMENT}:{management_address(node)}<0>"
        self._write(rank, f"NET/IB : Using {listed} [RO]; OOB {oob}")
        if node in fleet.condition.no_gdr:
            for at, rail in enumerate(rails):
                self._write(rank, f"NET/IB : GPU Direct RDMA Disabled for HCA {at} 'mlx5_{rail}'")
        self._write(rank, "Using network IB")

    def _say_sharp(self, rank: int, nodes: int, place: int) -> None:
        what = self.fleet.shape.sharp
        number = self.fleet.number_of[self.job.node_of(rank)]
        own = self.fleet.environment(self.job, number)
        if not what or nodes < 2 or own.get("NCCL_COLLNET_ENABLE") == "0":
            return
        for text in NO_SHARP.get(what, _NO_TREE[:1]):
            self._write(rank, text)
        if what == "used":
            rails = self.fleet.rails(self.job, number, tuple(range(self.fleet.shape.gpus)))
            rail = self.fleet.shape.rail_of(rank % self.job.per_node)
            device = rails.index(rail) if rail in rails else 0
            for way in ("receive", "send"):
                ends = f"CollNet {device:02d}/0 : {place} [{way}]"
                self._write(rank, f"{ends} via COLLNET/SHARP/{device}/GDRDMA")

    def _open(self, ranks: Sequence[int], ends: bool = True) -> None:
        self._made += 1
        many = len(ranks)
        nodes = len({rank // self.job.per_node for rank in ranks})
        for place, rank in enumerate(ranks):
            gpu = rank % self.job.per_node
            if not self.lines[rank]:
                self.open_process(rank)
            pointer = f"0x55{self._made:05x}{gpu:x}0"
            name = f"ncclCommInitRankConfig comm {pointer} rank {place} nranks {many} cudaDev {gpu}"
            tail = f" nvmlDev {gpu} busId {0x1A + gpu:x}000 commId 0x9d{self._made:x}"
            local = f"localRanks {many // nodes} localRank {place % (many // nodes)} MNNVL 0"
            self._write(rank, f"{name}{tail} - Init START")
            self._write(rank, f"comm {pointer} rank {place} nRanks {many} nNodes {nodes} {local}")
            if not ends:
                continue
            self._write(rank, f"{name}{tail} - Init COMPLETE")
            self._say_sharp(rank, nodes, place)
            if many // nodes > 1:
                self._write(rank, self._local_channel(place, many // nodes, rank))

    def _local_channel(self, place: int, many: int, rank: int) -> str:
        following = place - place % many + (place + 1) % many
        node = self.fleet.number_of[self.job.node_of(rank)]
        off = self.fleet.environment(self.job, node).get("NCCL_P2P_DISABLE", "0") == "1"
        kind = "SHM/direct/direct" if off else "P2P/CUMEM"
        gpu, other = rank % self.job.per_node, following % many
        return f"Channel 00/0 : {place}[{gpu}] -> {following}[{other}] via {kind}"

    def _list_channels(self, task: Task, done: WorkDone, fresh: set[int]) -> None:
        """Write the channels between nodes, both ends of each."""
        if done.flows is None:
            return
        fleet, flows = self.fleet, done.flows
        by_node = [self._ranks_by_node(ranks) for ranks in task.groups]
        columns = (flows.source, flows.target, flows.out, flows.into, flows.group)
        for source, target, out, into, group in zip(*(c.tolist() for c in columns), strict=True):
            if group not in fresh:
                continue
            sender = self._near(by_node[group][source], out)
            receiver = self._near(by_node[group][target], into)
            for channel in range(CHANNELS_PER_RAIL):
                number = out + channel * fleet.shape.rails
                self._channel(number, sender, receiver, (source, out), (target, into))

    def _channel(
        self,
        number: int,
        sender: tuple[int, int],
        receiver: tuple[int, int],
        leaves: tuple[int, int],
        arrives: tuple[int, int],
    ) -> None:
        (place, rank), (far_place, far) = sender, receiver
        gpu, far_gpu = rank % self.job.per_node, far % self.job.per_node
        ends = f"Channel {number:02d}/0 : {place}[{gpu}] -> {far_place}[{far_gpu}]"
        self._write(rank, f"{ends} [send] via {self._device(*leaves)}")
        self._write(far, f"{ends} [receive] via {self._device(*arrives)}")

    def _device(self, node: int, rail: int) -> str:
        if (node, rail) not in self._devices:
            self._devices[node, rail] = self._find_device(node, rail)
        return self._devices[node, rail]

    def _find_device(self, node: int, rail: int) -> str:
        fleet = self.fleet
        if fleet.speaks_sockets(self.job, node):
            return "NET/Socket/0"
        rails = fleet.rails(self.job, node, tuple(range(fleet.shape.gpus)))
        gdr = "" if node in fleet.condition.no_gdr else "/GDRDMA"
        return f"NET/IB/{rails.index(rail)}{gdr}"

    def _ranks_by_node(self, ranks: Sequence[int]) -> Mapping[int, list[tuple[int, int]]]:
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for place, rank in enumerate(ranks):
            found[self.fleet.number_of[self.job.node_of(rank)]].append((place, rank))
        return found

    def _near(self, own: Sequence[tuple[int, int]], rail: int) -> tuple[int, int]:
        """Return the rank of a node whose GPU is next to a rail, with its place in the group."""
        for each in own:
            if self.fleet.shape.rail_of(each[1] % self.job.per_node) == rail:
                return each
        return own[0]

    def _list_tuning(self, task: Task, done: WorkDone) -> None:
        names = {
            "all_reduce": "AllReduce",
            "all_gather": "AllGather",
            "reduce_scatter": "ReduceScatter",
        }
        name = names.get(task.collective)
        for group, ranks in enumerate(task.groups if name else ()):
            cost = done.costs[group]
            for size in sorted(task.sizes, reverse=True):
                protocol = PROTOCOLS[cost.protocol(size)]
                used = cost.algorithm
                if used.startswith(("NVLS", "COLLNET")) and protocol != "SIMPLE":
                    used = "TREE"
                self._write(
                    ranks[0],
                    f"{name}: {size} Bytes -> Algo {used} proto {protocol}"
                    f" channel{{Lo..Hi}}={{0..{2 * self.fleet.shape.rails - 1}}}",
                )

    def add_completion_error(
        self, rank: int, ports: tuple[tuple[int, int], tuple[int, int]]
    ) -> str:
        """Write the WARN of a completion with error, and return it: own port, then the peer's."""
        (node, rail), (far, far_rail) = ports
        text = (
            f"NET/IB: Got completion from peer {management_address(far)}<40554> with status=12"
            f" opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:{rail_address(rail, node)}"
            f" remoteGids::ffff:{rail_address(far_rail, far)} hca mlx5_{rail}"
        )
        stamp = "[2026-11-23 12:00:00] "
        gpu = rank % self.job.per_node
        head = f"{stamp}{self.job.node_of(rank)}:{4000 + gpu}:{4200 + gpu} [{gpu}]"
        self.lines[rank].append(f"{head} transport/net_ib.cc:2453 NCCL WARN {text}")
        return text

    def add_port_error(self, rank: int, rail: int) -> None:
        """Write what NCCL's thread for events of a device says when its link is gone."""
        gpu = rank % self.job.per_node
        head = f"{self.job.node_of(rank)}:{4000 + gpu}:{4300 + gpu} [{gpu}]"
        text = f"NET/IB : mlx5_{rail}:1 Got async event : port error"
        self.lines[rank].append(f"{head} transport/net_ib.cc:139 NCCL WARN {text}")

    def packed(self, node: str) -> bytes:
        """Return the files of a node's processes as the launcher fetches them."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for rank in self.job.ranks_of(node):
                text = "".join(f"{line}\n" for line in self.lines[rank]).encode()
                if text:
                    entry = tarfile.TarInfo(f"nccl.{node}.{4000 + rank % self.job.per_node}")
                    entry.size = len(text)
                    archive.addfile(entry, io.BytesIO(text))
        return data.getvalue()
