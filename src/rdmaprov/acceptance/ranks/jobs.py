"""Jobs for a fleet: what is proven together, on which rails, with which sizes."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.plan import IB_TIMEOUT, GateJob, JobLimits, JobPlane, Task
from rdmaprov.bandwidth import rates
from rdmaprov.inventory import Node
from rdmaprov.isolation.meetings import round_robin

NCCL_MAX_BYTES = 8 << 30
GLOO_MAX_BYTES = 16 << 20
# Two buffers, and room for what compares them.
_MEMORY_SHARE = 0.8 / 2
HOST_PLANE, LOOPBACK = "inside the node", "127.0.0.1"
# One test of a pair or a group. In rings of 128 ranks of H100, what the links take for 1 GiB is
# twice the latency of 254 steps of some 10 us; with gloo, a size that needs the link.
GROUP_BYTES = {"nccl": 1 << 30, "gloo": 1 << 20}
GROUP_REPEAT = (5, 20, 0.3)
GROUP_S = 60.0
# With two nodes a tree hides a slot that runs at half its rate: docs/floor.md, The ceiling.
RING = {"NCCL_ALGO": "Ring"}
OTHERS = ("all_gather", "reduce_scatter", "all_to_all")
_FLEET_S = 180.0
# Of the other collectives, at the largest size, where what they add shows: three repetitions tell a
# tenth of a rate, with which one bad path takes two seconds each.
_OTHER_REPEAT = (3, 50, 0.5)
_NCCL_ROUNDS = 3


def default_sizes(backend: str, free_bytes: int) -> tuple[int, ...]:
    """Return the sizes from 8 B to the largest that fits, at most 8 GiB with NCCL."""
    if backend == "gloo":
        return rates.doubling_sizes(rates.MIN_BYTES, GLOO_MAX_BYTES)
    most = min(NCCL_MAX_BYTES, int(free_bytes * _MEMORY_SHARE))
    return rates.doubling_sizes(rates.MIN_BYTES, most)


def fleet_job(site: GateSite, wanted: tuple[int, ...], pairs: bool) -> GateJob:
    """Return the job of all nodes.

    Args:
        wanted: bytes of the messages.
        pairs: measure each node with each other one, else with a few.
    """
    job = _make_job(site, site.nodes, (), 0)
    return replace(job, tasks=tuple(_fleet_tasks(job, wanted, pairs)))


def _fleet_tasks(job: GateJob, wanted: tuple[int, ...], pairs: bool) -> Iterator[Task]:
    """Yield the tasks of all nodes: for each plane its sweep, the others, then its pairs."""
    count, numbers = len(job.nodes), itertools.count()
    limit_s = _FLEET_S + 0.1 * job.world
    # As many rounds as a number of nodes has binary digits: each has several others to compare.
    # With NCCL, the stage pairs has compared them before.
    few = min(_NCCL_ROUNDS, count.bit_length()) if job.backend == "nccl" else count.bit_length()
    rounds = tuple(itertools.islice(round_robin(range(count)), None if pairs else few))
    for plane in job.planes:
        everyone = (tuple(range(job.world)),)
        yield Task(next(numbers), "fleet", plane.name, everyone, sizes=wanted, limit_s=limit_s)
        for name in OTHERS:
            yield Task(
                next(numbers),
                "fleet",
                plane.name,
                everyone,
                name,
                wanted[-1:],
                dtypes=("float32",),
                repeat=_OTHER_REPEAT,
                limit_s=limit_s,
            )
        for each in rounds:
            groups = tuple((one * job.per_node, other * job.per_node) for one, other in each)
            yield Task(next(numbers), "pairs", plane.name, groups, "exchange")


def alone_job(site: GateSite, node: Node) -> GateJob:
    """Return the job of one node alone, without a task: its GPUs, or two ranks of gloo."""
    alone = replace(site, nodes=(node,), facts={node.name: site.facts[node.name]})
    job = _make_job(alone, (node,), (), 0)
    if site.backend == "gloo":
        plane = JobPlane(HOST_PLANE, None, {node.name: "lo"}, {node.name: LOOPBACK})
        job = replace(job, per_node=2, planes=(plane,), control={node.name: "lo"})
    else:
        job = replace(job, planes=(JobPlane(HOST_PLANE),))
    return replace(job, address=LOOPBACK, sampled={})


def gpu_task(job: GateJob, number: int, work: Mapping[str, Any]) -> Task:
    """Return the task in which each GPU of a node works by itself.

    Args:
        work: as Task.work.
    """
    return Task(number, "gpu", HOST_PLANE, (tuple(range(job.world)),), "gpu", work=work)


def host_task(job: GateJob, number: int, size: int) -> Task:
    """Return the task of an all-reduce inside a node.

    Args:
        size: bytes of the message.
    """
    ranks = (tuple(range(job.world)),)
    return Task(number, "host", HOST_PLANE, ranks, sizes=(size,), limit_s=GROUP_S)


def session_job(site: GateSite, number: int) -> GateJob:
    """Return the job whose ranks wait for the tasks of pairs and groups.

    Args:
        number: of the session, so that no port is used twice.
    """
    job = _make_job(site, site.nodes, (), number + 1)
    if site.backend == "gloo":
        return job
    own = {name: {**RING, **job.environment.get(name, {})} for name in job.nodes}
    return replace(job, environment=own)


def group_task(
    job: GateJob,
    number: int,
    stage: str,
    plane: str,
    groups: tuple[tuple[int, ...], ...],
    size: int,
) -> Task:
    """Return the task of groups that measure side by side.

    Args:
        plane: its name; the job's first by default.
        size: of the messages, in bytes.
    """
    return Task(
        number,
        stage,
        plane or job.planes[0].name,
        groups,
        sizes=(size,),
        dtypes=("float32",),
        repeat=GROUP_REPEAT,
        limit_s=GROUP_S,
    )


def group_bytes(site: GateSite) -> int:
    """Return the message of a group: 1 GiB with NCCL, or the largest that fits."""
    most = GROUP_BYTES[site.backend]
    if site.backend == "gloo":
        return most
    return min(most, default_sizes("nccl", preflight.free_bytes(site.facts))[-1])


def _make_job(
    site: GateSite, nodes: tuple[Node, ...], rails: tuple[int, ...], number: int
) -> GateJob:
    first = nodes[0]
    names = tuple(node.name for node in nodes)
    fixed = int(first.get("torch_runtime_acceptance_port") or 0)
    return GateJob(
        backend=site.backend,
        nodes=names,
        per_node=site.per_node,
        sampled={n.name: tuple(rail.described for rail in n.compute_rails) for n in nodes},
        pythons={node.name: preflight.python_of(node) for node in nodes},
        address=_address(site, first.name),
        port=fixed or int(site.facts[first.name]["port"]) + number,
        control={name: site.rendezvous.devices[name] for name in names},
        planes=_planes(site, nodes, rails),
        environment=_environment(site, nodes, rails),
        limits=JobLimits.of(site.backend, len(nodes) * site.per_node, _ib_timeout(site, names)),
    )


def _ib_timeout(site: GateSite, names: tuple[str, ...]) -> int:
    """Return the largest NCCL_IB_TIMEOUT of nodes; NCCL's own where none is set."""
    said = [str(site.facts[name].get("ib_timeout", "")) for name in names]
    return max((int(each) for each in said if each.isdecimal()), default=IB_TIMEOUT)


def _address(site: GateSite, first: str) -> str:
    """Return the address of a rendezvous, on the device by which its node reaches all."""
    known = site.facts[first]["addresses"][site.rendezvous.devices[first]]
    return site.rendezvous.address if site.rendezvous.address in known else str(known[0])


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


def _environment(
    site: GateSite, nodes: tuple[Node, ...], rails: tuple[int, ...]
) -> dict[str, dict[str, str]]:
    """Return what NCCL is told on each node; `=` means whole names."""
    if site.backend != "nccl":
        return {}
    return {node.name: _nccl_environment(site, node, rails) for node in nodes}


def _nccl_environment(site: GateSite, node: Node, rails: tuple[int, ...]) -> dict[str, str]:
    """Return a node's variables: the rails, and its control device unless the node says it.

    Left alone, NCCL takes ib*, else the first device that is not docker, lo or virbr: a BMC's
    169.254 or a veth (nccl#913, nccl#1000, nccl#1291).
    """
    own = {} if site.mnnvl else {"NCCL_MNNVL_ENABLE": "0"}
    own |= {} if site.collnet else {"NCCL_COLLNET_ENABLE": "0"}
    if not node.get("nccl_socket_ifname") and not site.facts[node.name].get("socket_ifname"):
        own["NCCL_SOCKET_IFNAME"] = f"={site.rendezvous.devices[node.name]}"
    if rails:
        devices = (site.facts[node.name]["rails"][rail]["rdma"] for rail in rails)
        own["NCCL_IB_HCA"] = "=" + ",".join(devices)
    return own
