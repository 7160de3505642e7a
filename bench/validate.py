"""The suite's connection against testinfra's own, on one machine, with the same 60 checks.

    python bench/validate.py [NODES...] [--full | --alone]     as root; 128 by default

Nodes are real sshds (fleet.py) that share this machine's processors with the controller, so the
ratios count and the seconds do not. Baselines run on fewer nodes and are scaled, for their cost
grows with the number; --full runs them whole, which takes hours. T1 to T13 name the project's
performance targets.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import validate_checks, validate_synthetic
from tests.unit.helpers.fleet import KEX, LAST, NETWORK, Fleet

AT_ONCE = 32
TROUBLED = 4
CONNECT_S = 5
ON_ONE_BRIDGE = 1000  # a bridge has 1,023 ports
SITE = {
    "fabric_kind": "roce",
    "fabric_link_gbps": 100,
    "fabric_rails": [{"netdev": "rail0"}, {"netdev": "rail1"}],
    "limits_memlock_services": [],
}


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds, and seconds of processor time with its ssh clients."""

    wall: float
    cpu: float
    output: str


class Bench:
    """One fleet with the suite and its ways to connect."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.addresses = [fleet.address(index) for index in range(fleet.count)]
        self._write()

    def _write(self) -> None:
        at = self.fleet.directory
        (self.fleet.site / "group_vars").mkdir()
        (self.fleet.site / "group_vars/all.yml").write_text(json.dumps(SITE))
        for name, text in (("suite", validate_checks.tests(1)), ("part", validate_checks.tests(4))):
            (at / name).mkdir()
            (at / name / "test_checks.py").write_text(text)
            (at / name / "pytest.ini").write_text("[pytest]\n")
        plain = (
            f"User root\nIdentityFile {at}/key\nUserKnownHostsFile {at}/known_hosts\n"
            "StrictHostKeyChecking yes\n"
        )
        base = f"{plain}KexAlgorithms {KEX}\n"
        (at / "plain").write_text(plain)
        (at / "ssh").write_text(base)
        (at / "mux").write_text(
            f"{base}ControlMaster auto\nControlPersist 60s\nControlPath {at}/home/%C\n"
        )

    def pytest(self, suite: str, *options: str, fails: bool = False, **more: str) -> Cost:
        """Return what a run of pytest cost, with more in its environment."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            str(self.fleet.directory / suite),
            *options,
        ]
        return time_command(command, self.fleet.directory, 1 if fails else 0, **more)

    def ours(self, *words: str, fails: bool = False, **more: str) -> Cost:
        """Return what the suite cost over our connection."""
        options = ("-p", "rdmaprov.validate.plugin", f"--inventory={self.fleet.site}")
        return self.pytest("suite", *options, *words, fails=fails, **more)

    def testinfra(self, suite: str, kind: str, config: str, count: int, *more: str) -> Cost:
        """Return what it cost over one of testinfra's connections."""
        if kind == "ansible":
            hosts = ",".join(f"ansible://n{index:03}" for index in range(count))
            where = [f"--ansible-inventory={self.fleet.site}"]
        else:
            hosts = ",".join(f"ssh://{address}" for address in self.addresses[:count])
            where = [f"--ssh-config={self.fleet.directory / config}"]
        return self.pytest(suite, f"--hosts={hosts}", *where, *more)

    def sessions(self) -> int:
        """Return how many remote commands the nodes have started so far."""
        logs = self.fleet.directory.glob("n*/log")
        return sum(log.read_text().count("Starting session: command") for log in logs)

    async def floor(self) -> None:
        """Run `true` on every node, by the ssh that the suite uses."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(address: str) -> None:
            async with gate:
                process = await asyncio.create_subprocess_exec(
                    "ssh",
                    "-F",
                    str(self.fleet.directory / "ssh"),
                    "-oBatchMode=yes",
                    address,
                    "true",
                )
                if await process.wait():
                    raise SystemExit(f"{address} does not answer")

        await asyncio.gather(*(one(address) for address in self.addresses))


def own_kex() -> str:
    """Return the key exchanges that ssh offers by itself."""
    said = subprocess.run(
        ["ssh", "-F", "none", "-G", "any"], capture_output=True, text=True, check=True
    )
    settings = dict(line.split(" ", 1) for line in said.stdout.splitlines() if " " in line)
    return settings["kexalgorithms"]


def processor_s() -> float:
    """Return the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_command(command: list[str], directory: Path, code: int = 0, **more: str) -> Cost:
    """Run a command that must end with a code; return what it cost."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(directory / "home"), **more}
    # An operator's Python keeps what it compiled; without, each run compiles this project anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, start = processor_s(), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wall, cpu = time.perf_counter() - start, processor_s() - before
    if done.returncode != code:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr}")
    return Cost(wall, cpu, done.stdout)


def row(name: str, value: str, note: str = "") -> None:
    """Print one line of the table."""
    print(f"  {name:52} {value:>12}  {note}", flush=True)


def measure(count: int, full: bool, alone: bool) -> None:
    """Measure everything on a number of nodes."""
    print(f"{count} nodes, 60 checks each, {os.cpu_count()} processors", flush=True)
    halls = math.ceil(count / LAST) if count > ON_ONE_BRIDGE else 0
    with Fleet(count, halls) as fleet:
        bench = Bench(fleet)
        start, before = time.perf_counter(), processor_s()
        asyncio.run(bench.floor())
        floor, bare = time.perf_counter() - start, processor_s() - before
        row("floor: ssh true, 32 at a time", f"{floor:.1f} s", f"{count / floor:.0f} nodes/s")
        before = bench.sessions()
        costs = [bench.ours() for _ in range(3)]
        ours = statistics.median(cost.wall for cost in costs)
        commands = (bench.sessions() - before) / count / len(costs)
        row("T1 rdmaprov", f"{ours:.1f} s", f"{ours / floor:.1f} x the floor; median of 3")
        row("T5 remote commands per node", f"{commands:g}")
        cpu = statistics.median(cost.cpu for cost in costs)
        note = f"{1000 * bare / count:.0f} ms of them ssh true's"
        row("T6 controller's processor time per node", f"{1000 * cpu / count:.0f} ms", note)
        begin = statistics.median(bench.ours("--hosts=n000").cpu for _ in range(3))
        further = 1000 * (cpu - begin) / (count - 1)
        row("   of each further node", f"{further:.0f} ms", f"one alone: {begin:.1f} s")
        if not alone:
            # What comes first counts, and Ansible puts these before the site's own.
            slow = bench.ours(ANSIBLE_SSH_ARGS=f"-oKexAlgorithms={own_kex()}").wall
            row("   rdmaprov, ssh's own key exchange", f"{slow:.1f} s")
            baselines(bench, ours, slow, full)
        trouble(bench, ours)
    directory = validate_synthetic.prepared()
    try:
        cost = time_command(validate_synthetic.command(directory), directory)
        row("T12 1,024 nodes, answers there", f"{cost.wall:.1f} s", f"{cost.cpu:.1f} s processor")
    finally:
        shutil.rmtree(directory)


def baselines(bench: Bench, ours: float, slow: float, full: bool) -> None:
    """Measure testinfra's connections and print how much longer they take.

    Args:
        bench: the fleet.
        ours: seconds that our connection took with the quick key exchange.
        slow: the same with ssh's own.
        full: whether to run them whole.
    """
    count = bench.fleet.count
    cells = (
        ("T2 testinfra ssh://, as documented", "part", "ssh", "plain", 4, ()),
        ("   the same, the quick key exchange", "part", "ssh", "ssh", 4, ()),
        ("   testinfra ansible://", "part", "ansible", "ssh", 4, ()),
        ("T3 testinfra ssh:// with a ControlPath", "suite", "ssh", "mux", 16, ()),
        ("T4 the same, pytest -n 8", "suite", "ssh", "mux", 64, ("-n", "8")),
    )
    for name, suite, kind, config, some, more in cells:
        some = count if full else min(some, count)
        suite = "suite" if full else suite
        cost = bench.testinfra(suite, kind, config, some, *more)
        factor = count / some * (4 if suite == "part" else 1)
        note = f"; scaled from {some} nodes, {60 if suite == 'suite' else 15} checks"
        scaled = cost.wall * factor
        ratio = f"{scaled / ours:.1f} x rdmaprov"
        if config == "plain":
            ratio += f" ({scaled / slow:.0f} x with ssh's own key exchange)"
        ratio += "" if factor == 1 else note
        row(name, f"{scaled:.1f} s", ratio)


def trouble(bench: Bench, ours: float) -> None:
    """Measure a fleet of which four nodes hang and four refuse."""
    hosts = json.loads((bench.fleet.site / "hosts.yml").read_text())
    with ExitStack() as stack:
        troubled = {}
        for index in range(2 * TROUBLED):
            listener = stack.enter_context(socket.socket())
            listener.bind((f"{NETWORK}.1", 0))
            if index < TROUBLED:
                listener.listen()  # the kernel accepts, and nobody answers
            troubled[f"{'hung' if index < TROUBLED else 'refused'}{index}"] = {
                "ansible_host": f"{NETWORK}.1",
                "ansible_port": listener.getsockname()[1],
            }
        hosts["nodes"]["hosts"].update(troubled)
        hosts["nodes"]["vars"]["ansible_ssh_timeout"] = CONNECT_S
        (bench.fleet.site / "hosts.yml").write_text(json.dumps(hosts))
        cost = bench.ours(fails=True)
    named = len(named_nodes(cost.output) & troubled.keys())
    row(
        "T13 with 4 hung and 4 refused nodes more",
        f"{cost.wall:.1f} s",
        f"{cost.wall - ours:+.1f} s; {named} of {len(troubled)} named",
    )


def named_nodes(output: str) -> set[str]:
    """Return the nodes that a text names, folded or not.

    >>> sorted(named_nodes("2 nodes (hung[0-1]), refused4: no answer"))
    ['hung0', 'hung1', 'refused4']
    """
    words = re.findall(r"\b[a-z]+(?:\[[0-9,-]+\]|[0-9]+\b)", output)
    return {name for word in words for name in NodeSet(word, resolver=RESOLVER_NOGROUP)}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="rdmaprov's connection against testinfra's own")
    parser.add_argument("nodes", nargs="*", type=int, default=[128])
    parser.add_argument("--full", action="store_true", help="do not scale the baselines")
    parser.add_argument("--alone", action="store_true", help="leave the baselines out")
    words = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench/validate.py makes network namespaces: run it as root")
    for count in words.nodes:
        measure(count, words.full, words.alone)


if __name__ == "__main__":
    main()
