"""A fleet of which 3 in 100 nodes hang and 1 in 100 lies, under 1,024 open files.

    python bench/hostile_fleet.py [NODES] [--verbs VERB...] [--connect-s S]     1,000 by default

One real sshd stands for all nodes. A node is its user's forced command, chosen by its key: an
honest one runs the agent as it is; one that hangs accepts the login and does not answer; one that
lies answers with what no agent says. Honest nodes are this machine: 24 checks judge each of them,
and `apply --drifted` finds that it matches. Ansible, which then runs on the others, has no limit
for a node that hangs behind its login: those here end after two minutes.

Nodes share this machine's processors: beside other work, logins need a longer --connect-s.

Prints time, memory and open files (processes.py says how), and exits unless each node that hangs
or lies is named with its reason, and each honest one has its results.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.memory import FILES, rails
from bench.processes import Finished, measure
from tests.unit.helpers.fleet import KEX

CHECKS = 24
# Behind the time for the connection, the time that the probe gives a node to start its agent.
START_S = 10
START_TIMEOUT_S = 30
HANGS_S = 110
HONEST, HUNG, LIAR = "honest", "hung", "liar"
# What stands in for a node's shell; the agent is its standard input.
FORCED = {
    HONEST: 'eval "$SSH_ORIGINAL_COMMAND"',
    HUNG: "exec sleep {hangs_s}",
    # The mark is the last word of the command, so the lie comes where answers are read.
    LIAR: 'printf "%s\\n0 abc 0 0\\n" "${SSH_ORIGINAL_COMMAND##* }"; exec cat > /dev/null',
}
SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {at}/host_key
AuthorizedKeysFile {at}/authorized_keys
StrictModes no
UsePAM no
UseDNS no
MaxStartups 2000
PidFile none
LogLevel ERROR
"""
VERBS = {
    "validate": ["validate", "{suite}"],
    "drifted": ["apply", "--drifted", "--roles", "limits"],
}


def kind_of(index: int) -> str:
    """Return what a node does, so that each hundred has three that hang and one that lies."""
    place = index % 100
    return HUNG if place in (11, 44, 77) else LIAR if place == 22 else HONEST


class HostileFleet:
    """A site, a suite and an sshd, for as long as the context lasts."""

    def __init__(self, at: Path, count: int, connect_s: int) -> None:
        self.at = at
        self.connect_s = connect_s
        self.reasons = {
            HUNG: f"no answer in {connect_s + START_S} s, nor in",
            LIAR: "unexpected output on the connection",
        }
        self.names = {f"n{index:04}": kind_of(index) for index in range(count)}
        self.suite = at / "test_own.py"
        self.port = free_port()

    def start(self, stack: ExitStack) -> None:
        """Write everything and start sshd, until the stack closes."""
        self._write_keys()
        self._write_site()
        self.suite.write_text(
            "".join(
                f"def test_{number}(host):\n    assert host.run('echo {number}').rc == 0\n\n\n"
                for number in range(CHECKS)
            )
        )
        (self.at / "sshd_config").write_text(SSHD.format(at=self.at, port=self.port))
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin") or "sshd"
        process = subprocess.Popen([sshd, "-D", "-f", str(self.at / "sshd_config")])
        stack.callback(process.wait)
        stack.callback(process.terminate)
        end = time.monotonic() + START_TIMEOUT_S
        while not answers(self.port):
            if time.monotonic() > end:
                raise SystemExit("sshd does not answer")
            time.sleep(0.1)

    def _write_keys(self) -> None:
        lines = []
        for name in ("host_key", *FORCED):
            path = self.at / name
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True
            )
            if name in FORCED:
                forced = self.at / f"{name}.sh"
                hangs_s = str(HANGS_S + 2 * self.connect_s)
                forced.write_text(FORCED[name].replace("{hangs_s}", hangs_s) + "\n")
                public = path.with_suffix(".pub").read_text()
                lines.append(f'restrict,command="sh {forced}" {public}')
        (self.at / "authorized_keys").write_text("".join(lines))
        public = (self.at / "host_key.pub").read_text()
        (self.at / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")

    def _write_site(self) -> None:
        (self.at / "site/group_vars").mkdir(parents=True)
        hosts = {
            name: {"unit": index, "ansible_ssh_private_key_file": str(self.at / kind)}
            for index, (name, kind) in enumerate(self.names.items())
        }
        (self.at / "site/hosts.yml").write_text(json.dumps({"nodes": {"hosts": hosts}}))
        known = shlex.quote(f"-oUserKnownHostsFile={self.at}/known_hosts")
        variables = {
            "fabric_kind": "roce",
            "fabric_link_gbps": 400,
            "fabric_rails": rails(),
            "limits_memlock_users": [],
            "limits_memlock_services": [],
            "limits_sysctl": {},
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": getpass.getuser(),
            "ansible_ssh_timeout": self.connect_s,
            "ansible_ssh_common_args": (
                f"-F none -oIdentitiesOnly=yes -oKexAlgorithms={KEX} {known}"
            ),
            "ansible_python_interpreter": shutil.which("python3", path="/usr/bin:/bin"),
        }
        (self.at / "site/group_vars/all.yml").write_text(json.dumps(variables))

    def run(self, verb: str) -> tuple[Finished, dict[str, Any]]:
        """Return what a verb cost, and its results."""
        command, *options = (word.format(suite=self.suite) for word in VERBS[verb])
        argv = [sys.executable, "-m", "rdmaprov", command, "site", *options]
        done = measure(argv, self.at, {"HOME": str(self.at)}, FILES)
        found = sorted((self.at / "runs").glob(f"*-{command}/results.json"))
        if not found:
            raise SystemExit(f"{verb}: exit code {done.code}\n{done.stdout}{done.stderr}")
        return done, json.loads(found[-1].read_text())

    def named(self, verb: str, results: dict[str, Any]) -> int:
        """Return how many nodes hang or lie; exit unless each is named, and honest ones judged."""
        why = validated(results) if verb == "validate" else probed(results)
        wrong = {
            name: why[name]
            for name, kind in self.names.items()
            if (self.reasons[kind] not in why[name] if kind in self.reasons else why[name])
        }
        if wrong:
            kinds = Counter(" ".join(each.split()[:12]) for each in wrong.values())
            raise SystemExit(f"{verb}: {len(wrong)} nodes have another result: {kinds}")
        return sum(kind in self.reasons for kind in self.names.values())


def validated(results: dict[str, Any]) -> dict[str, str]:
    """Return for each node why it is unknown; empty if all its checks passed."""
    nodes = results["nodes"].items()
    why = {name: "" if node["passed"] == CHECKS else "unknown" for name, node in nodes}
    return {**why, **{each["node"]: each["message"] for each in results["checks"]}}


def probed(results: dict[str, Any]) -> dict[str, str]:
    """Return for each node why the probe does not know it; empty if it matches the site."""
    return {name: str(node["not_proven"]) for name, node in results["nodes"].items()}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Return whether an sshd answers on a port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="verbs on a fleet with nodes that hang and lie")
    parser.add_argument("nodes", nargs="?", type=int, default=1000)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--connect-s", type=int, default=10, metavar="S", help="for one login")
    words = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("bench/hostile_fleet.py starts sshd and surveys as root: run it as root")
    print(f"{words.nodes} nodes, {os.cpu_count()} processors, {FILES} open files")
    with ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rdmaprov-hostile-")))
        fleet = HostileFleet(at, words.nodes, words.connect_s)
        fleet.start(stack)
        for verb in words.verbs:
            done, results = fleet.run(verb)
            number = fleet.named(verb, results)
            print(f"  {verb:9} {done.line()}  {number} hang or lie, each is named", flush=True)


if __name__ == "__main__":
    main()
