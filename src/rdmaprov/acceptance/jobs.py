"""Jobs for a fleet: what is proven together, on which rails, with which sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rdmaprov.acceptance import preflight
from rdmaprov.acceptance.nodes import Document
from rdmaprov.acceptance.plan import GateJob, JobLimits, JobPlane, Task
from rdmaprov.acceptance.reach import Rendezvous
from rdmaprov.bandwidth import sizes
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node
from rdmaprov.isolation.pairs import round_robin

NCCL_MAX_BYTES = 8 << 30
GLOO_MAX_BYTES = 16 << 20
# Two buffers, and room for what compares them.
_MEMORY_SHARE = 0.8 / 2
# One test of a group in an isolation: a size that needs the links, and no more.
GROUP_BYTES = {"nccl": 256 << 20, "gloo": 1 << 20}
GROUP_LIMITS = JobLimits(load=300, rendezvous=60, connect=30, step=20)
GROUP_S = 60.0


@dataclass(frozen=True)
class GateSite:
    """What is known of the nodes when a job is made.

    Args:
        nodes: in the site's order.
        facts: the preflight, by node.
        backend: `nccl` or `gloo`.
        rendezvous: where ranks join.

    """

    nodes: tuple[Node, ...]
    facts: Mapping[str, Document]
    backend: str
    rendezvous: Rendezvous

    @property
    def per_node(self) -> int:
        """Return the ranks of a node: one for each GPU, one without.

        Raises:
            UsageError: nodes have different numbers of GPUs, or none.

        """
        if self.backend != "nccl":
            return 1
        found = preflight.gpus_per_node(self.facts)
        if not found:
            what = "nccl needs the same number of GPUs on each node, at least 1"
            raise UsageError(what, "See which nodes have how many: nvidia-smi -L; use --limit")
        return found


def default_sizes(backend: str, free_bytes: int) -> tuple[int, ...]:
    """Return the sizes from 8 B to the largest that fits, at most 8 GiB with NCCL."""
    if backend == "gloo":
        return sizes.doubling_sizes(sizes.MIN_BYTES, GLOO_MAX_BYTES)
    most = min(NCCL_MAX_BYTES, int(free_bytes * _MEMORY_SHARE))
    return sizes.doubling_sizes(sizes.MIN_BYTES, most)


def fleet_job(site: GateSite, wanted: tuple[int, ...], pairs: bool) -> GateJob:
    """Return the job of all nodes.

    Args:
        site: what is known.
        wanted: bytes of the messages.
        pairs: measure each node with each other one, else with a few.

    """
    job = _make_job(site, site.nodes, (), 0)
    return replace(job, tasks=tuple(_fleet_tasks(job, wanted, pairs)))


def _fleet_tasks(job: GateJob, wanted: tuple[int, ...], pairs: bool) -> Iterator[Task]:
    """Yield the tasks of all nodes: for each plane its sweep, then its pairs."""
    count, numbers = len(job.nodes), itertools.count()
    # As many rounds as a number of nodes has binary digits: each has several others to compare.
    rounds = tuple(
        itertools.islice(round_robin(range(count)), None if pairs else count.bit_length())
    )
    for plane in job.planes:
        everyone = (tuple(range(job.world)),)
        yield Task(next(numbers), "fleet", plane.name, everyone, sizes=wanted)
        for each in rounds:
            groups = tuple((one * job.per_node, other * job.per_node) for one, other in each)
            yield Task(next(numbers), "pairs", plane.name, groups, "exchange")


def group_job(site: GateSite, names: Sequence[str], rails: tuple[int, ...], number: int) -> GateJob:
    """Return the job that tests a part of the nodes, on some rails or on all.

    Args:
        site: what is known.
        names: of the nodes.
        rails: numbers of the rails; all of them if empty.
        number: of the round, so that no port is used twice.

    """
    nodes = tuple(node for node in site.nodes if node.name in names)
    job = _make_job(site, nodes, rails, number + 1)
    tasks = tuple(
        Task(
            place,
            "isolation",
            plane.name,
            (tuple(range(job.world)),),
            sizes=(GROUP_BYTES[site.backend],),
            dtypes=("float32",),
            limit_s=GROUP_S,
        )
        for place, plane in enumerate(job.planes)
    )
    return replace(job, tasks=tasks, limits=job.limits if site.backend == "nccl" else GROUP_LIMITS)


def _make_job(
    site: GateSite,
    nodes: tuple[Node, ...],
    rails: tuple[int, ...],
    number: int,
) -> GateJob:
    first = nodes[0].name
    names = tuple(node.name for node in nodes)
    return GateJob(
        backend=site.backend,
        nodes=names,
        per_node=site.per_node,
        sampled={n.name: tuple((r.netdev, r.pci) for r in n.compute_rails) for n in nodes},
        pythons={node.name: preflight.python_of(node) for node in nodes},
        address=_address(site, first),
        port=int(site.facts[first]["port"]) + number,
        control={name: site.rendezvous.devices[name] for name in names},
        planes=_planes(site, nodes, rails),
        limits=JobLimits.of(site.backend, site.per_node * len(names)),
        environment=_rail_environment(site, nodes, rails),
    )


def _address(site: GateSite, first: str) -> str:
    """Return the address of a group's rendezvous, on the device by which a node reaches all."""
    if first == site.nodes[0].name:
        return site.rendezvous.address
    known = site.facts[first]["addresses"][site.rendezvous.devices[first]]
    return str(known[0])


def _planes(
    site: GateSite, nodes: tuple[Node, ...], rails: tuple[int, ...]
) -> tuple[JobPlane, ...]:
    """Return one plane for each rail; NCCL uses all rails at once."""
    if site.backend == "nccl":
        return (JobPlane("all rails"),)
    numbers = rails or range(min(len(node.compute_rails) for node in nodes))
    return tuple(_rail(site, nodes, number) for number in numbers)


def _rail(site: GateSite, nodes: tuple[Node, ...], number: int) -> JobPlane:
    addresses = {node.name: node.rails[number].address for node in nodes}
    return JobPlane(
        f"rail {number}",
        number,
        {node.name: site.facts[node.name]["rails"][number]["netdev"] for node in nodes},
        {name: str(address.ip) for name, address in addresses.items() if address is not None},
    )


def _rail_environment(
    site: GateSite, nodes: tuple[Node, ...], rails: tuple[int, ...]
) -> dict[str, dict[str, str]]:
    """Return what makes NCCL use some rails only; `=` means whole names."""
    if site.backend != "nccl" or not rails:
        return {}
    return {
        node.name: {
            "NCCL_IB_HCA": "="
            + ",".join(site.facts[node.name]["rails"][rail]["rdma"] for rail in rails)
        }
        for node in nodes
    }
