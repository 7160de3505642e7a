"""How near `rdmaprov accept` comes to a plain loop of all-reduces on the same nodes.

    python bench/acceptance.py [NODES [PYTHON]]

Prints, for sizes from 1 to 64 MiB on one rail, the bus bandwidth of the gate's own run and of a
hand-written loop, which torchrun starts on the same nodes right before and after it, and their
ratio. Below 1 MiB, ranks that share processors wait for their turn more than for data, and two runs
of the same loop differ by a factor of five. PYTHON has torch; it is this one by default. Needs
root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.rails import RailFleet, rail_address

SIZES = tuple(1 << power for power in range(20, 27, 2))
ROUNDS = 3
LOOP = """
import json, os, sys, time
import torch, torch.distributed as dist
os.environ["GLOO_SOCKET_IFNAME"] = "plane0"
dist.init_process_group("gloo")
n = dist.get_world_size()
for size in json.loads(sys.argv[1]):
    x = torch.zeros(size // 4)
    for _ in range(5):
        dist.all_reduce(x)
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        dist.all_reduce(x)
        times.append(time.perf_counter() - begin)
    times.sort()
    if dist.get_rank() == 0:
        print(json.dumps([size, size / times[25] / 1e9 * 2 * (n - 1) / n]), flush=True)
"""


def measure_plain(fleet: RailFleet, python: str, script: Path) -> dict[int, float]:
    """Return the bus bandwidth of the loop by size, GB/s."""
    ranks = [
        subprocess.Popen(
            ["ip", "netns", "exec", f"rdmaprov{index}", python, "-m", "torch.distributed.run",
             f"--nnodes={fleet.count}", f"--node-rank={index}", "--nproc-per-node=1",
             f"--master-addr={rail_address(0, 0)}", "--master-port=29400", "--max-restarts=0",
             str(script), json.dumps(SIZES)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for index in range(fleet.count)
    ]  # fmt: skip
    said = [rank.communicate()[0] for rank in ranks]
    return dict(json.loads(line) for line in said[0].decode().splitlines())


def measure_gate(fleet: RailFleet, directory: Path) -> dict[int, float]:
    """Return the bus bandwidth of the gate by size, GB/s."""
    result = directory / "result.json"
    argv = [
        sys.executable,
        "-m",
        "rdmaprov",
        "accept",
        str(fleet.site),
        "--ignore-validate",
        "--json",
        str(result),
    ]
    sizes = ["--sizes", f"{SIZES[0]}:{SIZES[-1]}"]
    done = subprocess.run([*argv, *sizes], cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the gate ended with {done.returncode}: {done.stdout}{done.stderr}")
    rows = json.loads(result.read_text())["planes"][0]["rows"]
    return {row["bytes"]: row["busbw_gb_s"] for row in rows if row["in_place"]}


def main() -> None:
    """Run both in turn and print the medians' ratio."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    with tempfile.TemporaryDirectory() as name, RailFleet(count, python) as fleet:
        directory = Path(name)
        script = directory / "loop.py"
        script.write_text(LOOP)
        loops, gates = [measure_plain(fleet, python, script)], []
        for _ in range(ROUNDS):
            gates.append(measure_gate(fleet, directory))
            loops.append(measure_plain(fleet, python, script))
    print(f"{count} nodes, busbw in GB/s, median of {ROUNDS} and {ROUNDS + 1} runs")
    print(f"{'bytes':>10}{'plain':>10}{'gate':>10}{'ratio':>8}")
    for size in SIZES:
        one, other = (sorted(run[size] for run in runs)[len(runs) // 2] for runs in (loops, gates))
        print(f"{size:>10}{one:>10.4f}{other:>10.4f}{other / one:>8.2f}")


if __name__ == "__main__":
    main()
