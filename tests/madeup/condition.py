"""In which state each part of a made-up fleet is. Faults change this, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.madeup.shape import BIT_ERROR_RATE, HOST_SHARE, FleetShape

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
LOSSLESS_PRIORITY = 3


@dataclass
class RankFault:
    """What one process does wrong, and from when on."""

    # `absent` (it never joins), `dies`, `node-dies`, `stuck` (in the kernel), `gpu-stuck` (the
    # GPU's kernel does not end), `sends-wrong`, `sends-wrong-timed` (not in the checks before the
    # times) or `adds-wrong` (what it receives)
    what: str
    after: int = 0  # tasks between nodes that its session finishes before


@dataclass
class Condition:
    """The parts of a fleet: arrays by node and GPU, by node and rail, by leaf switch and uplink.

    A leaf switch has the number block · rails + rail.
    """

    shape: FleetShape
    efficiency: float
    gpu_gb_s: Floats = field(init=False)  # what a GPU moves over NVLink each way
    has_gpu: Bools = field(init=False)
    slot_gb_s: Floats = field(init=False)
    line_gb_s: Floats = field(init=False)
    link_up: Bools = field(init=False)
    loss: Floats = field(init=False)  # of packets that leave the port
    bit_errors: Floats = field(init=False)  # per bit received
    flaps_per_s: Floats = field(init=False)
    via_host: Bools = field(init=False)  # the port's data goes through the CPU
    host_gb_s: Floats = field(init=False)  # by node
    write_share: Floats = field(init=False)  # of its slot that a NIC can write to memory, by node
    priority: Ints = field(init=False)
    switch_of: Ints = field(init=False)  # the leaf switch that a port's cable leads to
    uplink_gb_s: Floats = field(init=False)  # leaf switch × uplink
    adaptive: Bools = field(init=False)  # leaf switch
    switch_loss: Floats = field(init=False)  # of packets through a leaf switch
    lossless: Bools = field(init=False)  # PFC on the switch
    kernel_log: dict[int, list[str]] = field(default_factory=dict)
    path_share: dict[tuple[int, int, int], float] = field(default_factory=dict)
    late_us: Floats = field(init=False)  # node × GPU: how late a process joins, mean
    hop_us: Floats = field(init=False)  # node: what its CPU adds to each step between nodes
    gemm_share: Floats = field(init=False)  # node × GPU: of a healthy one's matrix multiplication
    foreign_gb_s: Floats = field(init=False)  # what another job takes of a port
    foreign_process: Bools = field(init=False)  # GPUs that another process uses
    duty: float = 1.0  # how often the fault shows at all
    sound: Condition | None = None  # the state while an intermittent fault does not show
    environment: dict[int, dict[str, str]] = field(default_factory=dict)
    versions: dict[int, dict[str, str]] = field(default_factory=dict)
    ranks: dict[tuple[int, int], RankFault] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)
    no_gdr: set[int] = field(default_factory=set)
    dying_links: dict[tuple[int, int], int] = field(default_factory=dict)  # port → after tasks
    gpus: dict[tuple[int, int], Any] = field(default_factory=dict)  # gpus.GpuState, where not good
    moved: dict[tuple[int, int], str] = field(default_factory=dict)  # GUIDs of NICs, where swapped
    liars: dict[int, str] = field(default_factory=dict)  # `healthy`, or `blames`

    def __post_init__(self) -> None:
        shape = self.shape
        ports, gpus = (shape.nodes, shape.rails), (shape.nodes, shape.gpus)
        switches = shape.blocks * shape.rails
        self.gpu_gb_s = np.full(gpus, shape.nvlink_gb_s)
        self.has_gpu = np.full(gpus, True)
        self.slot_gb_s = np.full(ports, shape.slot_gb_s)
        self.line_gb_s = np.full(ports, shape.line_gb_s)
        self.link_up = np.full(ports, True)
        self.loss = np.zeros(ports)
        self.bit_errors = np.full(ports, BIT_ERROR_RATE)
        self.flaps_per_s = np.zeros(ports)
        self.via_host = np.full(ports, False)
        self.host_gb_s = np.full(shape.nodes, HOST_SHARE * shape.rails * shape.line_gb_s)
        self.write_share = np.ones(shape.nodes)
        self.priority = np.full(ports, LOSSLESS_PRIORITY)
        block = np.arange(shape.nodes) // shape.per_leaf
        self.switch_of = block[:, None] * shape.rails + np.arange(shape.rails)[None, :]
        self.uplink_gb_s = np.full((switches, shape.per_leaf), shape.line_gb_s)
        self.adaptive = np.full(switches, shape.adaptive)
        self.switch_loss = np.zeros(switches)
        self.lossless = np.full(switches, True)
        self.late_us = np.zeros(gpus)
        self.hop_us = np.zeros(shape.nodes)
        self.gemm_share = np.ones(gpus)
        self.foreign_gb_s = np.zeros(ports)
        self.foreign_process = np.full(gpus, False)
