"""Logs of whole jobs, in the formats of NCCL's source at each version.

A job is one ring of all ranks; the first and the last rank of each node talk to other nodes. What
is written, in which order and form is NCCL's: src/debug.cc, src/init.cc, src/transport/{net,p2p}.cc
and generic.cc at the tags from v2.8.3-1 to v2.30.7-1.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.judgement import sentence

VERSIONS = tuple(f"2.{minor}.1" for minor in range(8, 31))


@dataclass(frozen=True)
class Job:
    version: str = "2.21.5"
    nodes: int = 2
    gpus: int = 2
    channels: int = 2
    network: str = "IB"
    layer: str = "RoCE"
    gdr: bool = True
    # What differs on single ranks: rank → network, or rank → gdr.
    networks: dict[int, str] = field(default_factory=dict)
    without_gdr: frozenset[int] = frozenset()
    environment: tuple[str, ...] = ()

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])

    @property
    def ranks(self) -> int:
        return self.nodes * self.gpus

    def lines(self) -> list[str]:
        ranks = [list(self.rank(rank)) for rank in range(self.ranks)]
        return [line for step in zip(*ranks, strict=True) for lines in step for line in lines]

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines())

    def rank(self, rank: int) -> Iterator[list[str]]:
        """Yield one rank's lines, by step."""
        head = [self.message(rank, f"NCCL version {self.version}+cuda12.4")] if rank == 0 else []
        yield [*head, *(self.message(rank, line) for line in self._network(rank))]
        yield [self.message(rank, line) for line in self._start(rank)]
        listed = [*self._channels(rank), self._connected(), "Connected all trees"]
        steps = [listed, [self._communicator(rank, "Init COMPLETE")]]
        # Since 2.22 channels are made by the first collective.
        for step in steps if self.minor < 22 else reversed(steps):
            yield [self.message(rank, line) for line in step]

    def message(self, rank: int, text: str) -> str:
        node, gpu = divmod(rank, self.gpus)
        return f"node{node}:{100 + gpu}:{200 + gpu} [{gpu}] NCCL INFO {text}"

    def _network(self, rank: int) -> Iterator[str]:
        network = self.networks.get(rank, self.network)
        yield from self.environment
        if network.startswith("IB"):
            ordering = "[RO]" if self.minor >= 12 else ""
            rail = ":0:0" if self.minor >= 30 else ""
            listed = "".join(f" [{i}]mlx5_{i}:1{rail}/{self.layer}" for i in range(self.gpus))
            yield f"NET/IB : Using{listed} {ordering}; OOB eth0:192.0.2.1<0>"
        elif network == "Socket":
            yield "NET/IB : No device found."
            yield "NET/Socket : Using [0]eth0:192.0.2.1<0>"
        yield f"Using network {network}"

    def _start(self, rank: int) -> Iterator[str]:
        if self.minor >= 18:
            yield self._communicator(rank, "Init START")
        if self.minor >= 20:
            yield (
                f"comm 0x55{rank:02x} rank {rank} nRanks {self.ranks} nNodes {self.nodes}"
                f" localRanks {self.gpus} localRank {rank % self.gpus} MNNVL 0"
            )
        yield "Channel 00/02 :    " + "   ".join(str(one) for one in range(self.ranks))

    def _communicator(self, rank: int, step: str) -> str:
        function = "ncclCommInitRank " if self.minor >= 21 else ""
        if self.minor >= 29 and step == "Init START":
            function = f"[Rank {rank}] {function}"
        identity = " commId 0x9d1" if self.minor >= 16 else ""
        nvml = f" nvmlDev {rank % self.gpus}" if self.minor >= 18 else ""
        return (
            f"{function}comm 0x55{rank:02x} rank {rank} nranks {self.ranks}"
            f" cudaDev {rank % self.gpus}{nvml} busId 1a000{identity} - {step}"
        )

    def _connected(self) -> str:
        gdr = int(self.gdr and not self.without_gdr)
        return "Connected all rings" + (f", use ring PXN 0 GDR {gdr}" if self.minor >= 24 else "")

    def _channels(self, rank: int) -> Iterator[str]:
        before, after = (rank - 1) % self.ranks, (rank + 1) % self.ranks
        for channel in range(self.channels):
            for source, target, way in ((before, rank, "receive"), (rank, after, "send")):
                yield from self._end(rank, channel, source, target, way)

    def _end(self, rank: int, channel: int, source: int, target: int, way: str) -> Iterator[str]:
        ends = f"{source}[{self._gpu(source)}] -> {target}[{self._gpu(target)}]"
        if self.ranks == 1:
            return
        if source // self.gpus != target // self.gpus:
            number = f"{channel:02d}/0" if self.minor >= 12 else f"{channel:02d}"
            network = self.networks.get(rank, self.network)
            gdr = "/GDRDMA" if self.gdr and rank not in self.without_gdr else ""
            gdr = "" if network == "Socket" else gdr
            yield f"Channel {number} : {ends} [{way}] via NET/{network}/{rank % self.gpus}{gdr}"
        elif way == "send":
            number = f"{channel:02d}/0" if self.minor >= 14 else f"{channel:02d}"
            yield f"Channel {number} : {ends} via P2P/IPC/read"

    def _gpu(self, rank: int) -> str:
        return str(rank % self.gpus) if self.minor >= 18 else f"{rank % self.gpus + 1}000"


def of(text):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return transport.read_matrix([Path("-")])


def judge(matrix, expected=None, hcas=None, *, gdr=False, every_rank=True):
    return [
        sentence(p) for p in transport.judge(matrix, expected, hcas, gdr, every_rank=every_rank)
    ]
