"""A fleet of ssh targets on one machine: each with its own network, /etc and /var/lib.

A node is a network namespace with two rails (veth), a mount namespace whose /etc and /var/lib are
overlays, and a real sshd. The nodes share the machine's kernel and processors. Needs root, and
sshd (Debian's openssh-server). Traffic stays on a bridge of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

KEX = "ecdh-sha2-nistp256"  # as docs/validate.md advises; ssh's own choice costs both sides more
BRIDGE = "rdmaprov0"
NETWORK = "198.18.192"  # nodes are .2.1 and on, in a /18 for benchmarks (RFC 2544)
PREFIX = 18
START_TIMEOUT_S = 60

# Runs in the network namespace of the node, whose sysfs `ip netns exec` has mounted.
NODE = """
set -eu
mkdir -p {dir}/etc {dir}/etc.work {dir}/var {dir}/var.work
mount -t overlay overlay -o lowerdir=/etc,upperdir={dir}/etc,workdir={dir}/etc.work /etc
mount -t overlay overlay -o lowerdir=/var/lib,upperdir={dir}/var,workdir={dir}/var.work /var/lib
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/network
ip link set lo up
ip link set eth0 up
ip address add {address}/{prefix} dev eth0
ip link add rail0 type veth peer name wire0
ip link add rail1 type veth peer name wire1
ip link set wire0 up
ip link set wire1 up
exec /usr/sbin/sshd -D -e -f {conf}
"""

SSHD = """\
Port 22
HostKey {dir}/host_key
AuthorizedKeysFile {dir}/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
MaxStartups 2000
MaxSessions 200
PidFile none
LogLevel VERBOSE
Subsystem sftp internal-sftp
SetEnv HOME={dir}/home
"""


class Fleet:
    """A number of nodes, for as long as the context lasts; `site` has their hosts.yml."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.directory = Path(tempfile.mkdtemp(prefix="rdmaprov-fleet-"))
        self.site = self.directory / "site"
        self._processes: list[subprocess.Popen[bytes]] = []

    def address(self, index: int) -> str:
        """Return the address of a node, counted from 0."""
        first, last = divmod(index, 250)
        return f"198.18.{194 + first}.{last + 1}"

    def __enter__(self) -> Fleet:
        """Start the nodes and wait until each answers."""
        self._bridge()
        try:
            self._prepare()
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
        """End the nodes and remove what they left."""
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
        names = ",".join(self.address(index) for index in range(self.count))
        (self.directory / "known_hosts").write_text(f"{names} {public}")
        _run("ip", "address", "add", f"{NETWORK}.1/{PREFIX}", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        self.site.mkdir()
        (self.site / "hosts.yml").write_text(json.dumps(self._inventory()))

    def _inventory(self) -> dict[str, object]:
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

    def _start(self, index: int) -> None:
        name, state = f"rdmaprov{index}", self.directory / f"n{index:03}"
        state.mkdir()
        _run("ip", "netns", "add", name)
        _run(
            "ip",
            "link",
            "add",
            f"rdmap{index}",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            name,
        )
        _run("ip", "link", "set", f"rdmap{index}", "master", BRIDGE, "up")
        script = NODE.format(
            dir=state,
            address=self.address(index),
            prefix=PREFIX,
            conf=self.directory / "sshd_config",
        )
        with (state / "log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, "unshare", "--mount", "--pid", "--fork",
                     "--kill-child", "--mount-proc", "/bin/sh", "-c", script],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )
            )  # fmt: skip

    def _wait(self) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        for index in range(self.count):
            while not _answers(self.address(index)):
                if time.monotonic() > end:
                    log = (self.directory / f"n{index:03}" / "log").read_text()
                    raise SystemExit(f"node {index} does not answer: {log}")
                time.sleep(0.1)

    def _stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for index in range(self.count):
            _try("ip", "netns", "del", f"rdmaprov{index}")
            # A namespace lives until its last connection ends, such as that of a shared ssh.
            _try("ip", "link", "del", f"rdmap{index}")
        _try("ip", "link", "del", BRIDGE)
        shutil.rmtree(self.directory, ignore_errors=True)


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
