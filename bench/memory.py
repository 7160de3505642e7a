"""What verbs cost on a fleet of unreachable nodes: time, memory, open files.

    python bench/memory.py [NODES] [--verbs VERB...] [--kinds refused|hung...]     1,000 by default
    python bench/memory.py --there [NODES...]                  as root; 128, 512 and 1024 by default

The nodes are ports on 127.0.0.1: closed ones, or ones on which nobody answers. Memory is counted as
processes.py says, and the whole suite runs, for eight rails on each node.

With --there, `validate` judges nodes that answer by bench/validate.py's 60 checks. One sshd of this
machine stands for all of them, so it takes as many logins as all of them would.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import validate_checks
from bench.processes import Finished, measure
from tests.unit.helpers.bastion import Bastion

CONNECT_S = 2
RAILS = 8
FILES = 1024
VERBS = {
    "validate": ["validate"],
    "drifted": ["apply", "--drifted"],
    "plan": ["plan"],
    "apply": ["apply"],
}


def rails() -> list[dict[str, str]]:
    """Return eight rails, with an address of its own for each of 65,000 nodes."""
    host = "{{ unit // 250 }}.{{ unit % 250 + 1 }}"
    return [{"netdev": f"ens{rail}", "address": f"10.{rail}.{host}/16"} for rail in range(RAILS)]


def write_site(at: Path, count: int, port: int) -> None:
    """Write a site whose nodes all are one port of this machine."""
    (at / "site/group_vars").mkdir(parents=True)
    hosts = {f"n{index:04}": {"unit": index} for index in range(count)}
    (at / "site/hosts.yml").write_text(json.dumps({"nodes": {"hosts": hosts}}))
    variables = {
        "fabric_kind": "roce",
        "fabric_link_gbps": 400,
        "fabric_rails": rails(),
        "ansible_host": "127.0.0.1",
        "ansible_port": port,
        "ansible_user": "root",
        "ansible_ssh_timeout": CONNECT_S,
        "ansible_ssh_common_args": "-F none -o IdentityAgent=none",
    }
    (at / "site/group_vars/all.yml").write_text(json.dumps(variables))


def run(kind: str, verb: str, count: int) -> Finished:
    """Return what a verb cost on nodes of one kind; exit unless it names them all unreachable."""
    with ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rdmaprov-memory-")))
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        if kind == "hung":
            listener.listen(4096)  # the kernel accepts, and nobody answers
        write_site(at, count, listener.getsockname()[1])
        command, *options = VERBS[verb]
        argv = [sys.executable, "-m", "rdmaprov", command, "site", *options]
        done = measure(argv, at, {"HOME": str(at)}, FILES)
        states = Counter(
            node["state"]
            for path in at.glob("runs/*/results.json")
            for node in json.loads(path.read_text())["nodes"].values()
        )
        if done.code != 4 or set(states) - {"unreachable", "unknown"} or states.total() != count:
            raise SystemExit(f"{verb}: exit code {done.code}, {states}\n{done.stdout}{done.stderr}")
        return done


def run_there(count: int) -> Finished:
    """Return what `validate` cost on nodes that answer; exit unless all are judged."""
    with tempfile.TemporaryDirectory(prefix="rdmaprov-memory-") as name:
        at = Path(name)
        with Bastion(at, count, takes_all=True) as fleet:
            config = at / "ssh_config"
            config.write_text(config.read_text().replace("  ProxyJump bastion\n", ""))
            (at / "test_checks.py").write_text(validate_checks.tests(1))
            argv = [sys.executable, "-m", "rdmaprov", "validate", str(fleet.site), "test_checks.py"]
            done = measure(argv, at, {"HOME": str(at)}, 0)
        (path,) = at.glob("runs/*/results.json")
        counts = json.loads(path.read_text())["counts"]
    if counts["passed"] + counts["failed"] != 60 * count:
        raise SystemExit(f"exit code {done.code}, {counts}\n{done.stdout[-3000:]}{done.stderr}")
    return done


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="verbs on an unreachable fleet")
    parser.add_argument("nodes", nargs="*", type=int)
    parser.add_argument("--there", action="store_true")
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--kinds", nargs="+", choices=("refused", "hung"), default=["refused"])
    words = parser.parse_args()
    if words.there:
        for count in words.nodes or (128, 512, 1024):
            print(f"  validate {count:5} nodes {run_there(count).line()}", flush=True)
        return
    (count,) = words.nodes or (1000,)
    print(f"{count} nodes, {os.cpu_count()} processors, {FILES} open files")
    for kind in words.kinds:
        for verb in words.verbs:
            done = run(kind, verb, count)
            lines = done.stdout.count("\n")
            print(f"  {kind:8} {verb:9} {done.line()}  {lines:,} lines", flush=True)


if __name__ == "__main__":
    main()
