"""Nodes of this machine's own kernel: each has its network, processes, mounts and name.

Their ranks are real, with the lab's torch, and their rails are links that a test can slow down or
cut. They have no RDMA and no systemd: what needs those is tested in the lab.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml
from tests.rank_hook import hooked_python
from tests.tables import cases

from rdmaprov.lab import build
from rdmaprov.lab.build import TORCH_DIRECTORY
from rdmaprov.lab.image import ImageStore, Recipe
from rdmaprov.lab.layout import default_cache
from rdmaprov.resources import data_dir

# Runs as the first process of a node: its /proc, /sys and /run are its own, the rest is shared.
INIT = cases(__file__, "init")
CONTROL_NETWORK = "10.77.0"
# The brackets keep these patterns from matching the shell that has them on its command line.
LEFT = "ls /run | grep 'rdmaprov-accep[t]'; pgrep -af 'rdmaprov-accep[t]|agent.py[z]'; true"


def lab_torch_disk() -> Path:
    """Return the lab's image with torch, built if it is not there."""
    recipe = Recipe(data_dir("lab"), "bookworm")
    store = ImageStore(default_cache() / "images", print)
    build.ensure(recipe, store, print)
    return store.path(recipe.torch_key())


def run(*words: str | Path) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


class Namespaces:
    """A first process in namespaces of its own, which end with it; its script prints `ready`."""

    def __init__(self, name: str, script: str, kinds: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            ["unshare", *kinds, "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == "ready\n", said + self._process.stdout.read()
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self.pid = int(children.read_text())

    def enter(self, *words: str) -> str:
        return run("nsenter", "-t", str(self.pid), "-a", "--", *words)

    def wait(self, limit_s: float) -> int:
        """Return how it ended by itself."""
        return self._process.wait(limit_s)

    def kill(self) -> None:
        """End it as a power failure does, with all in it; it may have ended before."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait(10)


class NamespaceFleet:
    def __init__(self, directory: Path, image: Path, count: int, rails: int = 2) -> None:
        self.directory = directory
        self.site = directory / "site"
        self.names = [f"node{index + 1}" for index in range(count)]
        self._switch = Namespaces(
            "switch", "ip link set lo up; echo ready; exec sleep infinity", ["--net"]
        )
        # One device for all nodes, as each keeps what it read in memory of its own.
        self._disk = run("losetup", "--find", "--show", "--read-only", image).strip()
        self.nodes: dict[str, Namespaces] = {}
        networks = {"ctl": CONTROL_NETWORK, **{f"rail{r}": f"10.78.{r}" for r in range(rails)}}
        for device in networks:
            self._switch.enter("ip", "link", "add", device, "type", "bridge")
            self._switch.enter("ip", "link", "set", device, "up")
        for index, name in enumerate(self.names):
            script = INIT.format(torch=TORCH_DIRECTORY, disk=self._disk, name=name)
            kinds = ["--net", "--pid", "--mount", "--uts", "--ipc"]
            self.nodes[name] = Namespaces(name, script, kinds)
            for device, network in networks.items():
                self._connect(name, device, f"{network}.{index + 1}/24")
        self._write_site(rails)

    def _connect(self, name: str, device: str, address: str) -> None:
        node, port = self.nodes[name], f"{name}-{device}"
        self._switch.enter(
            *("ip", "link", "add", port, "type", "veth", "peer", "name", device, "netns"),
            str(node.pid),
        )
        self._switch.enter("ip", "link", "set", port, "master", device, "up")
        node.enter("ip", "address", "add", address, "dev", device)
        node.enter("ip", "link", "set", device, "up")

    def _write_site(self, rails: int) -> None:
        entered = self.directory / "pids"
        entered.mkdir(parents=True)
        for name, node in self.nodes.items():
            (entered / name).write_text(str(node.pid))
        shell = f'exec nsenter -t "$(cat {entered}/$0)" -a -- sh -c "$1"'
        variables = {
            "fabric_kind": "roce",
            "fabric_link_gbps": 100,
            "torch_runtime_launcher": "command",
            "torch_runtime_launch_command": ["sh", "-c", shell, "{node}", "{command}"],
            "torch_runtime_launch_python": f"{TORCH_DIRECTORY}/bin/python3",
        }
        hosts = {
            name: {
                "ansible_host": f"{CONTROL_NETWORK}.{index + 1}",
                "fabric_rails": [
                    {"netdev": f"rail{r}", "address": f"10.78.{r}.{index + 1}/24"}
                    for r in range(rails)
                ],
            }
            for index, name in enumerate(self.names)
        }
        self.site.mkdir()
        groups = {"all": {"vars": variables, "hosts": hosts}}
        (self.site / "hosts.yml").write_text(yaml.safe_dump(groups))

    def plug(self, name: str, device: str, into: str) -> None:
        self._switch.enter("ip", "link", "set", f"{name}-{device}", "master", into)

    def slow_down(self, name: str, device: str, rate: str) -> None:
        self.nodes[name].enter(
            *("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb"),
            *("latency", "400ms"),
        )

    def hook(self, name: str, source: str) -> None:
        torch = f"{TORCH_DIRECTORY}/bin/python3"
        python = hooked_python(self.directory / f"hook-{name}", torch, source)
        variables = self.site / "host_vars"
        variables.mkdir()
        (variables / f"{name}.yml").write_text(f"torch_runtime_launch_python: {python}\n")

    def down(self) -> None:
        for each in (*self.nodes.values(), self._switch):
            each.kill()
        run("losetup", "--detach", self._disk)
