"""The lab that the tests of this directory run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.lab.rail import Rail

from rdmaprov.lab import layout, model, ssh
from rdmaprov.lab.layout import Layout

SCRIPT_TIMEOUT_S = 180
REPO = Path(__file__).parents[2]


class RunningLab:
    """A lab that is up: scripts on its nodes, and the command line on the lab itself."""

    def __init__(self, places):
        self.layout = places
        self._environment = {**os.environ, "RDMAPROV_LAB_DIR": str(places.root)}

    def rdmaprov(self, *words):
        """Return how `rdmaprov WORDS` ended."""
        return subprocess.run(
            [REPO / ".venv/bin/rdmaprov", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def call(self, node, script):
        """Return how a script ended that may fail."""
        return ssh.call(self.layout, node, script, SCRIPT_TIMEOUT_S)

    def run(self, node, script, check=True):
        """Return what a script prints."""
        done = self.call(node, script)
        if check and done.returncode != 0:
            pytest.fail(f"{node}: {script}\nended with {done.returncode}: {done.stderr}")
        return done.stdout

    def node(self, name):
        """Return the description of a node."""
        described = model.Lab.load(self.layout.state)
        assert described is not None
        return described.node(name)

    def netdev(self, node, rail):
        """Return the netdev of a rail."""
        return model.find_rail(self.node(node), rail).netdev


@pytest.fixture(scope="session")
def lab():
    """Provide the lab of RDMAPROV_LAB_DIR where it is up, else one of our own for the session."""
    root = os.environ.get("RDMAPROV_LAB_DIR")
    if root is not None and (Path(root) / "lab.json").exists():
        yield RunningLab(Layout(Path(root), layout.default_cache()))
        return
    scratch = Path(tempfile.mkdtemp(prefix="rdmaprov-lab-"))
    own = RunningLab(Layout(scratch / "lab", layout.default_cache()))
    try:
        up = own.rdmaprov("lab", "up", "--site", str(scratch / "site"))
        assert up.returncode == 0, up.stderr
        yield own
    finally:
        own.rdmaprov("lab", "down")
        shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def card(lab):
    rail = Rail(lab, "node1")
    settings = rail.settings()
    yield rail
    rail.power_cycle()
    rail.run(settings)


@pytest.fixture
def rail(card):
    card.power_cycle()
    return card


@pytest.fixture
def peer(lab, rail):
    """Provide the same rail of another node, whose `address` is reachable from `rail`."""
    other = Rail(lab, "node2")
    address = other.run(
        "ip link set $D up; for i in 1 2 3 4 5; do "
        "ip -6 -o addr show dev $D scope link -tentative | grep -q . && break; sleep 1; done; "
        "ip -6 -o addr show dev $D scope link"
    ).split()[3]
    other.address = f"{address.partition('/')[0]}%{rail.netdev}"
    rail.run(f"ping -q -c 2 -i 0.3 {other.address}")
    return other


@pytest.fixture
def ofed(rail):
    rail.run("modprobe standin_ofed")
    yield rail
    rail.run("modprobe -r nvidia_peermem; modprobe -r standin_ofed")


# DCB
