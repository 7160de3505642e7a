"""What `rdmaprov watch` costs, and how often its verdicts are right on made-up fleets.

    python bench/watch.py verdicts [--seeds 50]   prints the tables of docs/rates.md
    python bench/watch.py windows [--nodes 512] [--rounds 20] [--healthy 120] [--seed 0]
        [--kept FILE] [--minutes M]
    python bench/watch.py fleet [--nodes 1024]
    python bench/watch.py ssh
    python bench/watch.py node

verdicts
    Fleets of 8 nodes with 8 rails, watched for 60 s; the fault begins after 20 s, at another rail
    for each seed. right: the rail or leaf is named, and nobody else is accused. after: seconds
    from the fault to its first verdict, judged every 3 s as the verb does.
windows
    bench/watch_windows.py: two faults at once in ten minutes of a large fleet, or none. With
    --kept, each window is a line of a file as it ends, and one that is there is not run again;
    with --minutes, none begins after as many, and the tables are of what is there.
fleet
    Nodes in another process answer over pipes what made-up nodes under load do: eight rails of
    mlx5's counters. The controller is the verb's own code, without ssh, whose processes come on
    top, and judges every 3 s.
ssh
    Eight nodes that are this machine behind real ssh and sshd: what an ssh of the controller takes
    once its connection stands, by /proc.
node
    The program of the node reads this machine's own sysfs in the places of the counters of eight
    rails. A NIC that asks its firmware for them keeps the program waiting, not computing; what the
    kernel computes for `ethtool -S` of eight NICs is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import resource
import selectors
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.watch_windows import rounds_of, table, windows
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.watch_faults import AT_TIMES, FAULTS, WEAK, WatchFault
from tests.madeup.watched import Fault, Fleet, MadeUpLink, MadeUpWatch, Place
from tests.madeup.watching import SHAPE, Watching, is_pair_right, is_right

from rdmaprov.inventory import load_site
from rdmaprov.probe.connection import Command, Connection, open_connection
from rdmaprov.probe.fleet import fleet_targets
from rdmaprov.probe.link import LocalLink
from rdmaprov.probe.script import node_script
from rdmaprov.probe.target import Target
from rdmaprov.watch.collect import PROGRAM, Collector, Connector, CounterLink
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.judge import judge
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.verdict import word

HEALTHY_S, SECONDS, JUDGE_S = 20, 60, 3
SLACK_S = 60  # for connections
RECORDED = 16  # different nodes that the made-up ones of a large fleet repeat


def run_trial(fault: WatchFault | None, seed: int) -> tuple[bool, int | None]:
    """Return whether all is right at the end, and after how long the fault had a verdict."""
    place = (seed % SHAPE.nodes, seed * 3 % SHAPE.rails)
    made = _later(fault.make(place)) if fault else None
    watching = Watching(MadeUpWatch(site_nodes(SHAPE), seed, [made] if made else []))
    watching.pass_seconds(HEALTHY_S)
    named = None
    for second in range(JUDGE_S, SECONDS - HEALTHY_S + 1, JUDGE_S):
        watching.pass_seconds(JUDGE_S)
        if named is None and _names(watching, fault, place):
            named = second
    return is_right(fault, place, watching.verdicts()), named


def _later(change: Fault) -> Fault:
    def later(watch: MadeUpWatch, rows: Fleet, second: int) -> None:
        if second > HEALTHY_S:
            change(watch, rows, second)

    return later


def _names(watching: Watching, fault: WatchFault | None, place: Place) -> bool:
    kinds = {word(each) for each in watching.verdicts() if each.rail == place[1]}
    return bool(fault) and bool(kinds) and set(fault.kinds if fault else ()) <= kinds


def print_verdicts(seeds: int) -> None:
    """Print the table of verdicts."""
    print("| what is wrong | fleets | right | first verdict after, median (worst) |")
    print("|---|---|---|---|")
    for name, fault in [("nothing", None), *FAULTS.items(), *AT_TIMES.items(), *WEAK.items()]:
        trials = [run_trial(fault, seed) for seed in range(seeds)]
        right = sum(is_good for is_good, _ in trials)
        known = [after for _, after in trials if after is not None]
        after = f"{statistics.median(known):.0f} s ({max(known)} s)" if known else ""
        print(f"| {name} | {seeds} | {right / seeds:.0%} | {after} |", flush=True)


def print_pairs() -> None:
    """Print the row of two faults at once."""
    pairs = list(itertools.combinations(FAULTS.values(), 2))
    right = sum(is_pair_right(pair, ((5, 3), (2, 6)), 0, SECONDS - HEALTHY_S) for pair in pairs)
    print(f"| two at once, on different rails | {len(pairs)} | {right / len(pairs):.0%} |  |")


def recorded_answers(seconds: int) -> tuple[Sequence[str], list[list[str]]]:
    """Return what some nodes answer to `open`, and then second by second."""
    watch = MadeUpWatch(site_nodes(FleetShape(RECORDED)))
    links = [MadeUpLink(watch, number) for number in range(RECORDED)]
    opened = [link.text("open") for link in links]
    steps: list[list[str]] = [[] for _ in links]
    for _ in range(seconds):
        watch.pass_second()
        for own, link in zip(steps, links, strict=True):
            own.append(link.text("read"))
    return opened, steps


def serve(pipes: Sequence[tuple[int, int]], seconds: int, mark_at: int) -> None:
    """Answer on all pipes, in a process of its own, until it is killed."""
    opened, steps = recorded_answers(seconds)
    selector = selectors.DefaultSelector()
    for number, (asked_at, said_at) in enumerate(pipes):
        own = SimpleNamespace(number=number, out=said_at, at=0, got=b"")
        selector.register(asked_at, selectors.EVENT_READ, own)
    while True:
        for key, _ in selector.select():
            own = key.data
            own.got += os.read(key.fd, 1 << 16)
            if len(own.got) == mark_at:  # the program has come
                os.write(own.out, b"\nMARK\n")
                own.got = b""
            while b"\n" in own.got and len(own.got) < mark_at:
                head, _, rest = own.got.partition(b"\n")
                name, _, command, given = head.split()
                size = int(command) + int(given)
                asked, own.got = rest[: int(command)], rest[size:]
                kind = own.number % RECORDED
                text = opened[kind] if asked == b"open" else steps[kind][own.at]
                own.at += asked != b"open"
                out = text.encode()
                data = b"%s 0 %d 0\n%s" % (name, len(out), out)
                while data:
                    data = data[os.write(own.out, data) :]


def measure_fleet(count: int, seconds: int) -> None:
    """Print what the controller takes for a fleet."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    source = node_script(PROGRAM)
    pairs = [(os.pipe(), os.pipe()) for _ in range(count)]
    child = os.fork()
    if not child:
        serve([(to[0], back[1]) for to, back in pairs], seconds + SLACK_S, len(source))
    nodes = site_nodes(FleetShape(count))
    before, cpu, began = _resident(), time.process_time(), time.monotonic()
    accounts = {node.name: NodeAccount(node) for node in nodes}
    ours = {node.name: (to[1], back[0]) for node, (to, back) in zip(nodes, pairs, strict=True)}
    fleet = WatchedFleet(accounts)
    collector = Collector(accounts, _connect(ours, source), _looker(fleet))
    collector.run(seconds)
    cpu, wall = time.process_time() - cpu, time.monotonic() - began
    answers = sum(each.answers for each in accounts.values())
    lost = sum(each.lost is not None for each in accounts.values())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    _, steps = recorded_answers(10)
    size = statistics.fmean(len(text) for own in steps for text in own)
    memory = (_resident() - before) / count / 1024
    print(
        "| nodes | answers of each in | processor for an answer | of one core | memory a node |"
        " bytes of an answer |"
    )
    print("|---|---|---|---|---|---|")
    print(
        f"| {count:,} | {answers / count:.0f} in {wall:.0f} s | {1e3 * cpu / answers:.2f} ms | "
        f"{cpu / wall:.0%} | {memory:.0f} KiB | {size:,.0f} |"
    )
    if lost:
        print(f"{lost} nodes did not answer in time")


def _looker(fleet: WatchedFleet) -> Any:  # noqa: ANN401 - a callable
    state = {"next": float(JUDGE_S)}

    def look(now_s: float) -> None:
        if now_s >= state["next"]:
            state["next"] = now_s + JUDGE_S
            judge(fleet)

    return look


def _connect(pipes: dict[str, tuple[int, int]], source: bytes) -> Any:  # noqa: ANN401 - a callable
    async def connect(name: str) -> Connection:
        (to, back), (errors, other) = pipes[name], os.pipe()
        os.close(other)
        process = SimpleNamespace(
            stdin=os.fdopen(to, "wb", 0),
            stdout=os.fdopen(back, "rb", 0),
            stderr=os.fdopen(errors, "rb", 0),
            poll=lambda: 0,
            wait=lambda _limit=0: 0,
        )
        link = LocalLink(cast(Any, process))
        connection = Connection(Target(name, "", (), "", 10), "MARK", link)
        await connection.start(source)
        return connection

    return connect


def _resident() -> int:
    """Return the bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure_ssh(count: int, seconds: int) -> None:
    """Print what the ssh of a node takes of the controller each second."""
    from tests.unit.helpers.ssh_node import Sshd

    with tempfile.TemporaryDirectory() as place:
        variables = Sshd(Path(place)).variables("node")
        site = Path(place) / "site"
        (site / "group_vars").mkdir(parents=True)
        hosts: dict[str, Any] = {f"n{number}": {} for number in range(count)}
        kind = {"fabric_kind": "roce", "fabric_link_gbps": 400, "fabric_rails": [{"netdev": "lo"}]}
        own = {**variables, **kind, "ansible_python_interpreter": sys.executable}
        (site / "hosts.yml").write_text(json.dumps({"nodes": {"hosts": hosts, "vars": own}}))
        fleet = load_site(site)
        reach = Connector(fleet_targets(fleet))
        processes: list[int] = []

        async def connect(name: str) -> CounterLink:
            link = cast(Connection, await reach(name))
            processes.append(cast(LocalLink, link._link)._process.pid)
            return link

        seen: list[tuple[float, float]] = []

        def look(now_s: float) -> None:
            if len(processes) == count:
                seen.append((now_s, sum(map(_processor, processes))))

        accounts = {node.name: NodeAccount(node) for node in fleet.nodes}
        Collector(accounts, connect, look).run(seconds)
    (began, before), (ended, after) = seen[0], seen[-1]
    each = (after - before) / (ended - began) / count
    print(f"an ssh takes {1e3 * each:.2f} ms of the controller each second ({ended - began:.0f} s)")


def _processor(process: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_node(rails: int, reads: int) -> None:
    """Print what reading costs on this machine."""
    with tempfile.TemporaryDirectory() as place:
        files = _make_tree(Path(place))
        described = [{"netdev": NETDEV, "pci": ""}] * rails
        given = json.dumps({"rails": described, "root": place}).encode()
        start, cost = asyncio.run(_ask(given, reads))
    print("| rails | files of sysfs each | to start | a read, each second | of one core |")
    print("|---|---|---|---|---|")
    print(f"| {rails} | {files} | {1e3 * start:.0f} ms | {1e3 * cost:.2f} ms | {cost:.2%} |")


NETDEV = "eth0"


def _make_tree(root: Path) -> int:
    """Lay out an RDMA device whose counters are files of this machine's sysfs."""
    port = root / "sys/class/infiniband/mlx5_0/ports/1"
    device = root / "sys/class/net" / NETDEV
    for each in (device, port / "gid_attrs/ndevs", port / "counters", port / "hw_counters"):
        each.mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text(f"{NETDEV}\n")
    own = Path("/sys/class/net/lo")
    (port / "state").symlink_to(own / "operstate")
    (device / "carrier_changes").symlink_to(own / "carrier_changes")
    names = _watched_files()
    for group, name in names:
        (port / group / name).symlink_to(own / "statistics/tx_bytes")
    return len(names) + 2


def _watched_files() -> list[tuple[str, str]]:
    """Return the files that the program reads of an RDMA device."""
    space: dict[str, Any] = {}
    source = PROGRAM.read_text().removesuffix("main(sys.argv[1])\n")
    exec(compile(source, str(PROGRAM), "exec"), space)  # noqa: S102
    return [(group, name) for group, names in space["WATCHED"].items() for name in names]


async def _ask(given: bytes, reads: int) -> tuple[float, float]:
    """Return the processor time to start, and of each read."""
    here = Target("here", "", ("/bin/sh", "-c"), sys.executable, 10)
    connection = await open_connection(here, node_script(PROGRAM))
    try:
        opened = json.loads((await connection.send(Command("open", 9, given))).out)
        for _ in range(reads):
            await asyncio.sleep(0.02)
            said = (await connection.send(Command("read", 9))).out
        steps = json.loads(said)
        return opened["cpu_us"] / 1e6, (steps["cpu_us"] - opened["cpu_us"]) / 1e6 / reads
    finally:
        connection.close()


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["verdicts", "windows", "fleet", "ssh", "node"])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--healthy", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seconds", type=int, default=30)
    given = parser.parse_args()
    if given.what == "verdicts":
        print_verdicts(given.seeds)
        print_pairs()
    elif given.what == "windows":
        nodes = given.nodes or 512
        wanted = list(rounds_of(given.rounds, given.seed, given.healthy))
        until = time.monotonic() + 60 * given.minutes
        print(table(nodes, list(windows(nodes, wanted, given.kept, until))))
    elif given.what == "fleet":
        measure_fleet(given.nodes or 1024, given.seconds)
    elif given.what == "ssh":
        measure_ssh(8, given.seconds)
    else:
        measure_node(8, 300)


main()
