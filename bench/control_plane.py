"""What the ranks of a gate spend on agreeing with each other, measured and extrapolated.

    PYTHON_WITH_TORCH bench/control_plane.py [RANKS...]

Real processes of the agent on this machine: they meet through one store, connect over gloo,
agree on repeat counts and on whether anyone saw a wrong value. For each step, a line a + b·n is
fitted to the times by least squares; the last column is that line at 4,096 ranks. The processors
of one machine serve all ranks here, so b has their waking up in it, which a fleet does in parallel:
the extrapolation is an upper limit of the store's share. The last line sums up a sweep. Processes
are forks of one, so that torch is imported once.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
RANKS = (8, 16, 32, 64)
WANTED = 4096
TIMES = 30
SIZES = 31  # 8 B to 8 GiB
# A sweep: how often each size is repeated, and one look for wrong values.
SWEEP = {"agree": SIZES, "any wrong": 1}
ONCE = ("rendezvous", "connect")


def run_rank(rank: int, world: int, port: int, directory: Path) -> None:
    """Measure as one rank, and write the times."""
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK="1",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    from rdmaprov.acceptance.agent.progress import Watch
    from rdmaprov.acceptance.agent.rank import RankProcess

    limits = {"rendezvous": 300, "connect": 300, "step": 300}
    plane = {"name": "lo", "netdev": "lo", "address": "127.0.0.1"}
    plan = {"backend": "gloo", "control": "lo", "planes": [plane], "limits_s": limits}
    process = RankProcess(plan, Watch(directory / f"progress.{rank}"))
    (directory / f"ready.{rank}").touch()
    while not (directory / "go").exists():
        time.sleep(0.005)
    seconds: dict[str, float] = {}
    begin = time.perf_counter()
    process.join_rendezvous()
    seconds["rendezvous"] = time.perf_counter() - begin
    task = {"number": 0, "plane": "lo", "groups": {"0": list(range(world))}}
    begin = time.perf_counter()
    group = process.group(task, 0)
    seconds["connect"] = time.perf_counter() - begin
    seconds["agree"] = _median(lambda: group.agree(lambda: "1"))
    seconds["any wrong"] = _median(lambda: group.is_any(False))
    small = process.torch.zeros(2)
    seconds["small all-reduce"] = _median(
        lambda: group.time_run(lambda: process.dist.all_reduce(small, group=group.handle))
    )
    # A ring over all ranks, as the control plane had one before.
    shared = process.torch.zeros(1, dtype=process.torch.float64)
    seconds["ring for a maximum"] = _median(
        lambda: process.dist.all_reduce(shared, op=process.dist.ReduceOp.MAX)
    )
    group.is_any(False)
    (directory / f"times.{rank}").write_text(json.dumps(seconds))
    process.leave()


def _median(work: Callable[[], object]) -> float:
    """Return the median seconds of something that all ranks do."""
    times = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(world: int) -> dict[str, float]:
    """Return the seconds of each step with a number of ranks, of the slowest one."""
    import torch.distributed as dist

    # In a process of its own: no thread of it is copied by a fork. In a job, rank 0 has it.
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        children = [_fork(lambda: _serve(dist, directory))]
        while not (directory / "port").exists():
            time.sleep(0.01)
        port = int((directory / "port").read_text())
        ranks = [
            _fork(lambda rank=rank: run_rank(rank, world, port, directory))  # type: ignore[misc]
            for rank in range(world)
        ]
        while len(list(directory.glob("ready.*"))) < world:
            time.sleep(0.05)
        (directory / "go").touch()
        for pid in ranks:
            os.waitpid(pid, 0)
        (directory / "end").touch()
        os.waitpid(children[0], 0)
        found = [json.loads(path.read_text()) for path in directory.glob("times.*")]
        return {step: max(each[step] for each in found) for step in found[0]}


def _serve(dist: ModuleType, directory: Path) -> None:
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    (directory / "port.new").write_text(str(store.port))
    (directory / "port.new").rename(directory / "port")
    while not (directory / "end").exists():
        time.sleep(0.05)


def _fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        work()
    finally:
        os._exit(0)


def fit(times: dict[int, float], wanted: int) -> float:
    """Return a + b·n at a number of ranks, by least squares; at least the largest measured."""
    slope, start = statistics.linear_regression(list(times), list(times.values()))
    return max(start + slope * wanted, *times.values())


def main() -> None:
    """Measure with each number of ranks, and print the extrapolation."""
    import torch

    torch.set_num_threads(1)
    counts = tuple(map(int, sys.argv[1:])) or RANKS
    by_count = {count: measure(count) for count in counts}
    print("seconds" + "".join(f"{count:>12}" for count in counts) + f"{WANTED:>12} (fitted)")
    fitted = {}
    for step in by_count[counts[0]]:
        times = {count: by_count[count][step] for count in counts}
        fitted[step] = fit(times, WANTED)
        cells = "".join(f"{seconds:>12.5f}" for seconds in times.values())
        print(f"{step:<20}"[:20] + cells + f"{fitted[step]:>12.4f}")
    sweep = sum(fitted[step] * count for step, count in SWEEP.items())
    parts = " + ".join(f"{count} · {fitted[step]:.4f}" for step, count in SWEEP.items())
    print(f"a sweep of {SIZES} sizes at {WANTED} ranks: {parts} = {sweep:.1f} s of agreeing")
    print(f"once: {' + '.join(f'{step} {fitted[step]:.1f}' for step in ONCE)} s")


if __name__ == "__main__":
    main()
