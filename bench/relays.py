"""Verbs on a fleet straight and by relays: the same results, and what each costs.

    python bench/relays.py [NODES] [--halls N] [--verbs VERB...] [--kill]     as root; 1,024 by 4

VERB is validate, discover, plan or apply: of one role, nccl, on nodes that lack it, and that have
the names of two RDMA devices and nothing more of these. Each hall is a
network namespace with a relay. Nodes, relays and controller share this machine's processors, so
processor time counts and seconds do not. With --kill, a relay is killed last when half of its nodes
were asked, with no other one and with one that takes over.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import validate_checks
from bench.processes import Finished, measure
from bench.validate import SITE, processor_s
from tests.cli.test_bastion import without_times
from tests.unit.helpers.fleet import Fleet

CGROUPS = Path("/sys/fs/cgroup")
CPUACCT = CGROUPS / "cpuacct"  # of version 1
HELD = """
def test_held(host):
    command = "echo x >>{at}/asked; until test -e {at}/go; do sleep 0.2; done"
    assert host.run(command, everywhere=True, time_limit_s=3600).rc == 0
"""
KILLED_BEHIND_S = 1
WAYS = ("straight", "by relays")
NCCL = {"nccl_ib_hca": ["mlx5_0", "mlx5_1"], "nccl_environment": {"NCCL_DEBUG": "WARN"}}
FORGET = """rm -rf /etc/nccl.conf /var/lib/rdmaprov /run/rdmaprov
mountpoint -q /sys/class && exit
mkdir -p /run/class/net /run/class/infiniband/mlx5_0 /run/class/infiniband/mlx5_1
cp -d $(find /sys/class/net -type l) /run/class/net && mount --bind /run/class /sys/class"""
WORDS = {
    # Without what only these tests' environment has: it looks at each check once more.
    "validate": ("suite/test_checks.py", "--json", "-", "-q", "-p", "no:hypothesispytest"),
    "discover": (),
    "plan": ("--roles", "nccl", "--json", "-"),
    "apply": ("--roles", "nccl", "--json", "-"),
}


class Bench:
    """A fleet in halls, with a suite of 60 checks."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.at = fleet.directory
        (fleet.site / "group_vars").mkdir()
        (fleet.site / "group_vars/all.yml").write_text(json.dumps({**SITE, **NCCL}))
        (self.at / "suite").mkdir()  # pytest looks at all that stands beside a test
        (self.at / "suite/test_checks.py").write_text(validate_checks.tests(1))
        (self.at / "suite/test_held.py").write_text(HELD.format(at=self.at))
        self.group = (CPUACCT if CPUACCT.is_dir() else CGROUPS) / "rdmaprov-relays"
        self.group.mkdir(exist_ok=True)
        for relay in fleet.relays:
            (self.group / "cgroup.procs").write_text(str(relay.pid))

    def run(
        self, *words: str, by_relay: bool, stand_in: bool = False
    ) -> tuple[Finished, float, float]:
        """Return what a verb cost: its own, and the processor time of it and of the relays."""
        self.fleet.write_hosts(by_relay=by_relay, stand_in=stand_in)
        before, relays = processor_s(), self._relays_s()
        argv = [sys.executable, "-m", "rdmaprov", *words]
        home = {"HOME": str(self.at / "home"), "COLUMNS": "300"}
        done = measure(argv, self.at, home, 0)
        return done, processor_s() - before, self._relays_s() - relays

    def _relays_s(self) -> float:
        """Return the processor time of the relays with all that they have started."""
        if CPUACCT.is_dir():
            return int((self.group / "cpuacct.usage").read_text()) / 1e9
        return int((self.group / "cpu.stat").read_text().split()[1]) / 1e6

    def compare(self, verb: str) -> None:
        """Run a verb straight and by relays; print what each cost."""
        words = (verb, str(self.fleet.site), *WORDS[verb])
        found, own = [], []
        for by_relay in (False, True):
            self.forget(verb)
            done, own_s, relays_s = self.run(*words, by_relay=by_relay)
            text = done.stdout
            if verb == "discover":
                states = Counter({"read": text.count("# host_vars/")})
            else:
                text = without_times(json.loads(text))
                states = Counter(node["state"] for node in text["nodes"].values())
            found.append(text)
            own.append((own_s, done.peak.python_mb + done.peak.ssh_mb))
            row(
                f"{verb}, {WAYS[by_relay]}",
                f"{own_s:.1f} s",
                f"exit code {done.code}; {done.line()}",
            )
            row("   nodes", "", ", ".join(f"{n} {state}" for state, n in states.items()))
            row("   the relays'", f"{relays_s:.1f} s")
        count = self.fleet.count - 1
        for by_relay, (seconds, memory) in zip((False, True), own, strict=True):
            self.forget(verb)
            alone, way = self.alone(words, by_relay=by_relay), WAYS[by_relay]
            more_ms, more_mb = 1000 * (seconds - alone[0]) / count, (memory - alone[1]) / count
            row(f"   of each further node, {way}", f"{more_ms:.1f} ms", f"{more_mb:.3f} MB")
        row("   results", "equal" if found[0] == found[1] else "DIFFER")
        if found[0] != found[1]:
            for number, each in enumerate(found):
                (self.at.parent / f"rdmaprov-{verb}{number}").write_text(json.dumps(each, indent=1))

    def alone(self, words: tuple[str, ...], *, by_relay: bool) -> tuple[float, float]:
        """Return the processor time and memory of a verb with one node."""
        done, own_s, _ = self.run(*words, "--limit", "n000", by_relay=by_relay)
        peak = done.peak
        row("   one node", f"{own_s:.1f} s", done.line())
        return own_s, peak.python_mb + peak.ssh_mb

    def forget(self, verb: str) -> None:
        """Have nodes as before the role was applied, if the verb is of roles."""
        if verb not in ("plan", "apply"):
            return
        login = ["ssh", "-i", str(self.at / "key"), f"-oUserKnownHostsFile={self.at}/known_hosts"]
        nodes = [f"root@{self.fleet.address(index)}" for index in range(self.fleet.count)]
        with ThreadPoolExecutor(16) as threads:
            done = threads.map(lambda node: subprocess.call([*login, node, FORGET]), nodes)
            if any(done):
                raise SystemExit("a node does not forget the role")

    def kill(self, *, stand_in: bool) -> None:
        """Kill the last relay when half of its nodes were asked; print what became of nodes."""
        hall, asked = self.fleet.halls - 1, self.at / "asked"
        for name in ("asked", "go"):
            (self.at / name).unlink(missing_ok=True)
        first = hall * self.fleet.each
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.2):
                begun = len(asked.read_text().split()) if asked.exists() else 0
                if begun >= first + (self.fleet.count - first) // 2:
                    time.sleep(KILLED_BEHIND_S)
                    self.fleet.end_relay(hall)
                    (self.at / "go").touch()
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        words = ("validate", str(self.fleet.site), "suite/test_held.py", "--json", "-", "-q")
        done, _, _ = self.run(*words, by_relay=True, stand_in=stand_in)
        over.set()
        watcher.join()
        nodes = json.loads(done.stdout)["nodes"].items()
        its = {f"n{index:03}" for index in range(first, self.fleet.count)}
        states = Counter(("its" if name in its else "other", one["state"]) for name, one in nodes)
        said = ", ".join(f"{n} {whose} nodes {state}" for (whose, state), n in states.items())
        what = ", another one is there" if stand_in else ""
        row(f"relay{hall} killed{what}", f"exit code {done.code}", said)


def row(name: str, value: str, note: str = "") -> None:
    """Print one line of the table."""
    print(f"  {name:40} {value:>12}  {note}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="verbs straight and by relays")
    parser.add_argument("nodes", nargs="?", type=int, default=1024)
    parser.add_argument("--halls", type=int, default=4)
    parser.add_argument("--verbs", nargs="*", choices=WORDS, default=["validate", "discover"])
    parser.add_argument("--kill", action="store_true")
    words = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench/relays.py makes network namespaces: run it as root")
    print(f"{words.nodes} nodes in {words.halls} halls, {os.cpu_count()} processors", flush=True)
    with Fleet(words.nodes, words.halls) as fleet:
        bench = Bench(fleet)
        for verb in words.verbs:
            bench.compare(verb)
        if words.kill:
            bench.kill(stand_in=False)
    if words.kill:
        with Fleet(words.nodes, words.halls) as fleet:
            Bench(fleet).kill(stand_in=True)


if __name__ == "__main__":
    main()
