"""The words of a perftest's command line, of options that the node's own perftest has.

Sources: its `--help` and `usage()` in perftest_parameters.c, 4.5 to 26.04.
"""

import re
from dataclasses import dataclass

from rdmaprov.perftest.model import HOST_MEMORY, PathTest

_OPTION = re.compile(r"(?m)^\s+(?:-\w, )?(--[\w-]+)")
_PROGRAMS = {"bandwidth": "ib_write_bw", "latency": "ib_write_lat"}
PROGRAMS = tuple(_PROGRAMS.values())
# Latency is that of a small message; perftest's own default.
_LATENCY_ITERATIONS = 1000
_MEMORY = re.compile(r"(host|numa|gpu)(\d{0,3})")


@dataclass(frozen=True)
class Abilities:
    """What a node's perftest can do, by its own words."""

    options: frozenset[str] = frozenset()  # the long options that its help lists
    # whether GPU memory goes by dma-buf where perftest can, as nvidia_peermem, the other way, is
    # not loaded
    uses_dmabuf: bool = False

    @property
    def gpu_way(self) -> str:
        """Return how GPU memory is reached, in words; empty if it is not."""
        option, dmabuf = self.gpu_options
        if not option:
            return ""
        return "dma-buf" if dmabuf and self.uses_dmabuf else "peer memory"

    @property
    def gpu_options(self) -> tuple[str, str]:
        """Return the options for GPU memory and for dma-buf; empty where it has none."""
        for kind in ("cuda", "rocm"):
            if f"--use_{kind}" in self.options:
                dmabuf = f"--use_{kind}_dmabuf"
                return f"--use_{kind}", dmabuf if dmabuf in self.options else ""
        return "", ""


def read_abilities(help_text: str, *, uses_dmabuf: bool = False) -> Abilities:
    """Return what a perftest can do."""
    return Abilities(frozenset(_OPTION.findall(help_text)), uses_dmabuf)


@dataclass(frozen=True)
class RdmaPort:
    """The port of an end."""

    device: str  # the RDMA device, such as mlx5_0
    gid_index: int | None = None  # place of its GID; None on InfiniBand, which needs none
    mtu: int = 0  # bytes of the path's MTU; 0 for the port's own


@dataclass(frozen=True)
class Settings:
    """What holds for all tests of a run."""

    duration_s: int = 3  # of a test of bandwidth
    dscp: int | None = None  # of the packets, on RoCE; None leaves it
    service_level: int | None = None  # on InfiniBand; None leaves it
    mtu: int = 0  # bytes of RDMA's MTU that each path must have; 0 for any
    # how long a packet stays without an answer until it is sent again, as 4.096 µs times 2 to the
    # power of this (InfiniBand Architecture 1.4, 9.7.6.1.3); 0 for perftest's
    qp_timeout: int = 0
    messages: int = 0  # of a test of bandwidth, instead of its duration; 0 for that
    tx_depth: int = 0  # messages in flight; 0 for perftest's 128


def program(test: PathTest) -> str:
    """Return the program that runs a test."""
    return _PROGRAMS[test.measures]


def memory_of(text: str) -> tuple[str, int]:
    """Return an end's kind of memory (host, numa, gpu) and its number; -1 for the host's.

    Raises:
        ValueError: there is no such memory.
    """
    found = _MEMORY.fullmatch(text)
    if found is None or (found[1] == HOST_MEMORY) == bool(found[2]):
        raise ValueError(f"{text!r} is no memory")
    return found[1], int(found[2] or -1)


def words(
    test: PathTest, memory: str, port: RdmaPort, tcp_port: str, settings: Settings, able: Abilities
) -> list[str] | None:
    """Return the command line of one end, without the server's address; None: it lacks an option.

    A GPU's memory needs a perftest built for it, and a bandwidth: ib_write_lat refuses it.

    Args:
        tcp_port: at which the server listens, or a word that stands for it.
    """
    found = [program(test), "-F", "-d", port.device, "-p", tcp_port, "-s", str(test.size)]
    if test.measures == "latency":
        found += ["-n", str(_LATENCY_ITERATIONS)]
    else:
        number = settings.messages
        found += ["-n", str(number)] if number else ["-D", str(settings.duration_s)]
        found += ["-t", str(settings.tx_depth)] if settings.tx_depth else []
        found.append("--report_gbits")
    found += ["-x", str(port.gid_index)] if port.gid_index is not None else []
    found += ["-m", str(port.mtu)] if port.mtu else []
    if port.gid_index is not None and settings.dscp is not None:
        found.append(f"--tclass={settings.dscp << 2}")
    if port.gid_index is None and settings.service_level is not None:
        found += ["-S", str(settings.service_level)]
    found += ["-u", str(settings.qp_timeout)] if settings.qp_timeout else []
    gpu = _gpu_words(memory, able)
    return None if gpu is None or (gpu and test.measures == "latency") else [*found, *gpu]


def _gpu_words(memory: str, able: Abilities) -> list[str] | None:
    kind, number = memory_of(memory)
    if kind != "gpu":
        return []
    option, dmabuf = able.gpu_options
    if not option:
        return None
    return [f"{option}={number}", *([dmabuf] if dmabuf and able.uses_dmabuf else [])]
