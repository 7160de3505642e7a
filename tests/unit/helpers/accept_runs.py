"""Runs of an acceptance as the launcher returns them, for tests to break."""

from rdmaprov.acceptance.ranks.plan import DTYPES, GateJob, JobPlane, Task
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun

SIZES = (8, 1 << 20)


def job(
    count: int = 4, rails: int = 2, sizes=SIZES, rounds=None, dtypes=DTYPES, per_node=1, **changes
) -> GateJob:
    """Return a job that has a sweep of all ranks on each plane, then pairs of nodes."""
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
        "per_node": per_node,
        "pythons": dict.fromkeys(names, "/usr/bin/python3"),
        "address": "198.18.0.1",
        "port": 29500,
        "control": dict.fromkeys(names, "ens0"),
        "planes": planes,
        "tasks": _tasks(
            changes.get("planes", planes), len(names) * per_node, (sizes, rounds, dtypes), per_node
        ),
        **changes,
    }
    return GateJob(**values)


def _tasks(planes, world, wanted, many):
    sizes, rounds, dtypes = wanted
    rounds = [((0, other),) for other in range(1, world // many)] if rounds is None else rounds
    made: list[Task] = []
    for plane in planes:
        every = (tuple(range(world)),)
        made.append(Task(len(made), "fleet", plane.name, every, sizes=sizes, dtypes=dtypes))
        for pairs in rounds:
            groups = tuple((one * many, other * many) for one, other in pairs)
            made.append(Task(len(made), "pairs", plane.name, groups, "exchange"))
    return tuple(made)


def healthy(made: GateJob | None = None, median_us: float = 1000.0) -> JobRun:
    """Return a run in which everything is as it should be."""
    made = made or job()
    ran = JobRun(made)
    for rank in range(made.world):
        ran.nodes[made.node_of(rank)] = NodeRun(directory="/run/x", rc=0, left=())
    planes = {plane.name: plane for plane in made.planes}
    for task in made.tasks:
        for rank, group in task.group_of.items():
            at = {"plane": task.plane, "task": task.number, "group": group}
            if task.collective == "exchange":
                to = sum(task.groups[group]) - rank
                say(ran, rank, "pair", **at, to=to, us=50.0, gb_s=1.0, reduce_us=80.0)
            else:
                _say_sweep(ran, rank, task, at, median_us)
                _say_moved(ran, rank, planes[task.plane], at)
            _say_links(ran, rank, planes[task.plane], at)
        for rank in range(made.world):
            say(ran, rank, "finished", task=task.number)
    for rank in range(made.world):
        say(ran, rank, "done")
    return ran


def _say_sweep(ran, rank, task, at, median_us):
    say(ran, rank, "phase", phase=f"{task.plane}: sweep")
    for size in task.sizes:
        for in_place in (True, False):
            times = {"median_us": median_us, "p99_us": 2 * median_us, "min_us": median_us}
            row = {**at, "dtype": "float32", "bytes": size, "in_place": in_place}
            say(ran, rank, "row", **row, count=20, **times)
        say(ran, rank, "checked", **at, bytes=size, dtypes=list(task.dtypes))
    say(ran, rank, "waits", **at, us=[100.0 + (rank + i) % 7 for i in range(9)])


def _say_moved(ran, rank, plane, at):
    netdev = plane.netdevs.get(ran.job.node_of(rank), "")
    say(ran, rank, "moved", **at, due_bytes=10**9, bytes={netdev: 11 * 10**8})


def _say_links(ran, rank, plane, at):
    node = ran.job.node_of(rank)
    say(
        ran,
        rank,
        "links",
        **at,
        links=[
            {"from": plane.addresses[node], "to": address, "segments": 100_000, "again": 0}
            for other, address in plane.addresses.items()
            if other != node
        ],
    )


def say(ran: JobRun, rank: int, kind: str, **fields) -> None:
    ran.events.append({"rank": rank, "event": kind, **fields})


def change(ran: JobRun, kind: str, where, **fields) -> None:
    hit = [
        number for number, event in enumerate(ran.events) if event["event"] == kind and where(event)
    ]
    assert hit
    for number in hit:
        ran.events[number] = {**ran.events[number], **fields}


def broken(count: int = 4) -> JobRun:
    """Return a run that ended in the sweep of rail 1, with nobody's word on why yet."""
    ran = healthy(job(count))
    for number, node in enumerate(ran.nodes.values()):
        node.rc = 1
        node.ranks = {
            number: {
                "communicator": 7,
                "entered": 500,
                "left": 499,
                "phase": "rail 1: sweep",
                "process": "S",
            }
        }
    return ran


def found(kind, ran):
    """Return whom the findings of a kind name, and on which rail."""
    return [(finding.node, finding.rail) for finding in kind(ran)]
