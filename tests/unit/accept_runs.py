"""Runs of an acceptance as the launcher returns them, for tests to break."""

from __future__ import annotations

from rdmaprov.acceptance.job_run import JobRun, NodeRun
from rdmaprov.acceptance.plan import GateJob, JobPlane

SIZES = (8, 1 << 20)


def job(count: int = 4, rails: int = 2, **changes) -> GateJob:
    names = changes.get("nodes") or tuple(f"n{index}" for index in range(count))
    planes = tuple(
        JobPlane(
            f"rail {rail}",
            rail,
            dict.fromkeys(names, f"ens{rail}"),
            {name: f"198.18.{rail}.{index + 1}" for index, name in enumerate(names)},
        )
        for rail in range(rails)
    )
    values = {
        "backend": "gloo",
        "nodes": names,
        "per_node": 1,
        "pythons": dict.fromkeys(names, "/usr/bin/python3"),
        "address": "198.18.0.1",
        "port": 29500,
        "control": dict.fromkeys(names, "ens0"),
        "planes": planes,
        "sizes": SIZES,
        "rounds": tuple(((0, other),) for other in range(1, count)),
        **changes,
    }
    return GateJob(**values)


def healthy(made: GateJob | None = None, median_us: float = 1000.0) -> JobRun:
    """Return a run in which everything is as it should be."""
    made = made or job()
    ran = JobRun(made)
    for rank in range(made.world):
        ran.nodes[made.node_of(rank)] = NodeRun(directory="/run/x", rc=0, left=())
    for plane in made.planes:
        for rank in range(made.world):
            say(ran, rank, "phase", phase=f"{plane.name}: sweep")
            for size in made.sizes:
                for in_place in (True, False):
                    times = {"median_us": median_us, "p99_us": 2 * median_us, "min_us": median_us}
                    say(ran, rank, "row", plane=plane.name, dtype="float32", bytes=size,
                        in_place=in_place, count=20, **times)  # fmt: skip
                say(ran, rank, "checked", plane=plane.name, bytes=size, dtypes=list(made.dtypes))
            say(ran, rank, "waits", plane=plane.name, us=[100.0 + (rank + i) % 7 for i in range(9)])
            netdev = plane.netdevs.get(made.node_of(rank), "")
            say(ran, rank, "moved", plane=plane.name, due_bytes=10**9, bytes={netdev: 11 * 10**8})
            say(ran, rank, "links", plane=plane.name, links=[
                {"from": plane.addresses[made.node_of(rank)], "to": address, "segments": 100_000,
                 "again": 0}
                for node, address in plane.addresses.items() if node != made.node_of(rank)
            ])  # fmt: skip
        for pairs in made.rounds:
            for one, other in pairs:
                ranks = one * made.per_node, other * made.per_node
                for source, target in (ranks, ranks[::-1]):
                    say(ran, source, "pair", plane=plane.name, to=target, us=50.0, gb_s=1.0)
    for rank in range(made.world):
        say(ran, rank, "done")
    return ran


def say(ran: JobRun, rank: int, kind: str, **fields) -> None:
    ran.events.append({"rank": rank, "event": kind, **fields})


def change(ran: JobRun, kind: str, where, **fields) -> None:
    """Change events of a kind for which `where` holds; there must be some."""
    hit = [number for number, event in enumerate(ran.events)
           if event["event"] == kind and where(event)]  # fmt: skip
    assert hit
    for number in hit:
        ran.events[number] = {**ran.events[number], **fields}


def broken(count: int = 4) -> JobRun:
    """Return a run that ended in the sweep of rail 1, with nobody's word on why yet."""
    ran = healthy(job(count))
    for number, node in enumerate(ran.nodes.values()):
        node.rc = 1
        node.ranks = {number: {"entered": 500, "left": 499, "phase": "rail 1: sweep",
                               "process": "S"}}  # fmt: skip
    return ran
