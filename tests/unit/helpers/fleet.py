"""A fleet of ssh targets on one machine: each with its own network, /etc and /var/lib.

A node is a network namespace with two rails (veth), a mount namespace whose /etc and /var/lib are
overlays, and a real sshd. The nodes share the machine's kernel and processors. Needs root, and
sshd (Debian's openssh-server). Traffic stays on bridges of its own: one with all nodes, or one for
each hall, which is a network namespace with a relay and the only way to its nodes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.tables import cases

KEX = "ecdh-sha2-nistp256"  # as docs/validate.md advises; ssh's own choice costs both sides more
BRIDGE = "rdmaprov0"
NETWORK = "198.18.192"  # nodes are .2.1 and on, in a /18 for benchmarks (RFC 2544)
PREFIX = 18
LAST = 250  # nodes in a /24
START_TIMEOUT_S = 60
# The kernel's table of neighbours is one for all namespaces, and takes 1,024 by itself.
NEIGHBORS = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")

# Runs in the network namespace of the node, whose sysfs `ip netns exec` has mounted.
NODE = cases(__file__, "node")

SSHD = cases(__file__, "sshd")

# The only way to the nodes of a hall; runs in its network namespace.
HALL = cases(__file__, "hall")


class Fleet:
    """A number of nodes, as long as the context lasts: on one bridge, or in halls with relays."""

    def __init__(self, count: int, halls: int = 0) -> None:
        self.count = count
        self.halls = halls
        self.each = math.ceil(count / max(1, halls))
        self.directory = Path(tempfile.mkdtemp(prefix="rdmaprov-fleet-"))
        self.site = self.directory / "site"
        self.relays: list[subprocess.Popen[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._neighbors = NEIGHBORS.read_text()

    def address(self, index: int) -> str:
        hall, number = divmod(index, self.each)
        first, last = divmod(number, LAST)
        return f"198.18.{self._numbers(hall)[first]}.{last + 1}"

    def _numbers(self, hall: int) -> range:
        many = math.ceil(self.each / LAST)
        return range(194 + hall * many, 194 + (hall + 1) * many)

    def __enter__(self) -> Fleet:
        self._bridge()
        try:
            self._prepare()
            for hall in range(self.halls):
                self._open(hall)
            self._connect()
            for index in range(self.count):
                self._start(index)
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _bridge(self) -> None:
        """Make the bridge; one that is there belongs to another fleet, which must stay whole."""
        made = subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=False)
        if made.returncode:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise SystemExit(f"another fleet is up, or was killed: ip link del {BRIDGE}")

    def _prepare(self) -> None:
        (self.directory / "home").mkdir()
        for name in ("host_key", "key"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / name)
        (self.directory / "sshd_config").write_text(SSHD.format(dir=self.directory))
        public = (self.directory / "host_key.pub").read_text()
        all_of = [self.address(index) for index in range(self.count)]
        names = ",".join([*map(_relay_address, range(self.halls)), *all_of])
        (self.directory / "known_hosts").write_text(f"{names} {public}")
        NEIGHBORS.write_text(str(max(int(self._neighbors), 8 * self.count)))
        _run("ip", "address", "add", f"{NETWORK}.1/{24 if self.halls else PREFIX}", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        self.site.mkdir()
        self.write_hosts(by_relay=False)

    def write_hosts(self, *, by_relay: bool, stand_in: bool = False) -> None:
        """Write hosts.yml, with the relays of the halls, each with a stand-in, or without."""
        groups = self._inventory()
        if by_relay:
            relays = {
                f"relay{hall}": {
                    "ansible_host": _relay_address(hall),
                    "fabric_node": False,
                    "ansible_python_interpreter": sys.executable,  # with Ansible beside it
                }
                for hall in range(self.halls)
            }
            groups["relays"] = {"hosts": relays, "vars": groups["nodes"]["vars"]}
            names = [*relays]
            for hall, relay in enumerate(names):
                nodes = range(hall * self.each, min((hall + 1) * self.each, self.count))
                hosts: dict[str, object] = {f"n{index:03}": {} for index in nodes}
                groups[f"hall{hall}"] = {
                    "hosts": hosts,
                    "vars": {"fabric_relay": [relay, names[hall - 1]] if stand_in else relay},
                }
        (self.site / "hosts.yml").write_text(json.dumps(groups))

    def _inventory(self) -> dict[str, dict[str, object]]:
        options = f"-oUserKnownHostsFile={self.directory}/known_hosts -oStrictHostKeyChecking=yes"
        hosts = {
            f"n{index:03}": {"ansible_host": self.address(index), "node_number": index + 1}
            for index in range(self.count)
        }
        variables = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.directory / "key"),
            "ansible_ssh_common_args": f"{options} -oKexAlgorithms={KEX}",
            "ansible_python_interpreter": shutil.which("python3", path="/usr/bin:/bin"),
        }
        return {"nodes": {"hosts": hosts, "vars": variables}}

    def _open(self, hall: int) -> None:
        name = f"rdmaprovhall{hall}"
        _run("ip", "netns", "add", name)
        _batch([
            f"link add rdmaphall{hall} type veth peer name eth0 netns {name}",
            f"link set rdmaphall{hall} master {BRIDGE} up",
        ])  # fmt: skip
        numbers, own = self._numbers(hall), _relay_address(hall)
        for number in numbers:
            _run("ip", "route", "add", f"198.18.{number}.0/24", "via", own, "dev", BRIDGE)
        script = HALL.format(
            own=own,
            gateway=_gateway(hall),
            numbers=" ".join(map(str, numbers)),
            others="\n".join(
                f"ip route add 198.18.{number}.0/24 via {_relay_address(other)}"
                for other in range(self.halls)
                for number in self._numbers(other)
                if other != hall
            ),
            conf=self.directory / "sshd_config",
        )
        with self.relay_logs[hall].open("wb") as log:
            self.relays.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, "/bin/sh", "-c", script],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )
            )  # fmt: skip
        self._await(own, self.relay_logs[hall])

    @property
    def relay_logs(self) -> list[Path]:
        return [self.directory / f"rdmaprovhall{hall}.log" for hall in range(self.halls)]

    def end_relay(self, hall: int) -> None:
        found = subprocess.run(
            ["ip", "netns", "pids", f"rdmaprovhall{hall}"], capture_output=True, check=True
        )
        _try("kill", "-KILL", *found.stdout.decode().split())

    def _connect(self) -> None:
        """Make the nodes' network namespaces, with a link to each; all by few processes."""
        for hall in range(max(1, self.halls)):
            place, bridge = (f"rdmaprovhall{hall}", "hall") if self.halls else ("", BRIDGE)
            inside = f"netns {place}" if place else ""
            nodes = range(hall * self.each, min((hall + 1) * self.each, self.count))
            _batch(
                f"netns add rdmaprov{index}\n"
                f"link add rdmap{index} {inside} type veth peer name eth0 netns rdmaprov{index}"
                for index in nodes
            )
            of = ("-n", place) if place else ()
            _batch((f"link set rdmap{index} master {bridge} up" for index in nodes), *of)

    def _start(self, index: int) -> None:
        name, state = f"rdmaprov{index}", self.directory / f"n{index:03}"
        hall, address = index // self.each, self.address(index)
        state.mkdir()
        network = f"ip address add {address}/{PREFIX} dev eth0"
        if self.halls:
            network = (
                f"ip address add {address} peer {_gateway(hall)} dev eth0\n"
                f"ip route add {NETWORK}.0/24 via {_gateway(hall)}"
            )
        script = NODE.format(dir=state, network=network, conf=self.directory / "sshd_config")
        with (state / "log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, "unshare", "--mount", "--pid", "--fork",
                     "--kill-child", "--mount-proc", "/bin/sh", "-c", script],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )
            )  # fmt: skip

    def _wait(self) -> None:
        for index in range(self.count):
            self._await(self.address(index), self.directory / f"n{index:03}" / "log")

    def _await(self, address: str, log: Path) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while not _answers(address):
            if time.monotonic() > end:
                raise SystemExit(f"{address} does not answer: {log.read_text()}")
            time.sleep(0.1)

    def _stop(self) -> None:
        for process in [*self._processes, *self.relays]:
            process.kill()
            process.wait()
        # A namespace lives until its last connection ends, such as that of a shared ssh.
        lines = (f"netns del rdmaprov{n}\nlink del rdmap{n}" for n in range(self.count))
        _batch(lines, "-force", check=False)
        for hall in range(self.halls):
            if hall < len(self.relays):
                self.end_relay(hall)
            _try("ip", "link", "del", f"rdmaphall{hall}")  # the kernel ends a namespace later
            _try("ip", "netns", "del", f"rdmaprovhall{hall}")
        _try("ip", "link", "del", BRIDGE)
        NEIGHBORS.write_text(self._neighbors)
        shutil.rmtree(self.directory, ignore_errors=True)


def _relay_address(hall: int) -> str:
    return f"{NETWORK}.{hall + 2}"


def _gateway(hall: int) -> str:
    return f"198.18.193.{hall + 1}"


def _batch(lines: Iterable[str], *options: str, check: bool = True) -> None:
    subprocess.run(
        ["ip", *options, "-batch", "-"],
        input="\n".join(lines).encode(), check=check, stderr=None if check else subprocess.DEVNULL,
    )  # fmt: skip


def _try(*argv: str) -> None:
    subprocess.run(argv, check=False, stderr=subprocess.DEVNULL)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _run(*argv: str | os.PathLike[str]) -> None:
    subprocess.run(argv, check=True)
