"""A node by pull: from an image to the proof, and what may go wrong. No controller connects to it.

The lab's image boots in namespaces on this machine's kernel: systemd, the units of the page, a real
Slurm, files and network are real. What the kernel has of its own is not: /proc/sys can be changed
below net alone, and mlx5_core is a directory that has at each boot what modprobe would give it.
The tests are steps of one story, in their order.
"""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_pull import key
from tests.namespaces.nodes import Namespaces
from tests.pull_nodes import (
    LIMIT_S,
    REFUSED,
    STARTED,
    PullNode,
    cutting,
    image_files,
    sign,
    signed,
    wrong_bundles,
)
from tests.site_runs import SiteRuns
from tests.tables import cases

from rdmaprov.lab import build
from rdmaprov.lab.image import ImageStore, Recipe
from rdmaprov.lab.layout import default_cache
from rdmaprov.lab.model import DEFAULT_SUITE
from rdmaprov.resources import data_dir

pytestmark = pytest.mark.long

BACKLOG = "/proc/sys/net/core/somaxconn"
SCRIPTS = {name: cases(__file__, name) for name in ("build", "boot", "devices", "forget")}
NETWORK = "[Match]\nName=e0\n[Network]\nAddress=10.9.0.2/24\nGateway=10.9.0.1\n"
SPACES = ("--mount", "--pid", "--net", "--uts", "--ipc")


class Site(SiteRuns):
    """The site of two nodes, and who compiles and signs its bundles."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, directory / "site")
        self.key, self.number = key(directory, "key"), 0
        (self.site / "group_vars").mkdir(parents=True)
        rails = {"fabric_rails": [{"netdev": "e0"}]}
        hosts = {f"node{n}": {"ansible_host": f"192.0.2.{n}", **rails} for n in (1, 2)}
        (self.site / "hosts.yml").write_text(yaml.safe_dump({"lab": {"hosts": hosts}}))

    def compile(self, prof_sel: int, backlog: int, **parameters: int) -> Path:
        """Return the directory of new bundles."""
        variables = {
            **yaml.safe_load((data_dir("inventory") / "lab/group_vars/all.yml").read_text()),
            "mlx5_module_parameters": {"mlx5_core": {"prof_sel": prof_sel, **parameters}},
            "limits_sysctl": {"net.core.somaxconn": backlog},
            # One that does not run: who tests may not be allowed to raise a limit.
            "limits_memlock_services": ["e2scrub_all"],
        }
        (self.site / "group_vars/all.yml").write_text(yaml.safe_dump(variables))
        self.number += 1
        out = self.directory / str(self.number)
        words = ("--out", str(out), "--key", str(self.key), "--roles", "mlx5,limits")
        code, said = self.run("compile", *words)
        assert code == 0, said
        for bundle in out.glob("*.bundle"):  # a number as from one directory of all bundles
            own = {**signed(bundle.read_text()), "number": self.number}
            bundle.write_text(sign(own, self.key))
        return out


class Node(PullNode):
    """A machine with the image as its disk."""

    def __init__(self, place: Path, image: Path) -> None:
        self.names = {"image": image, "tree": place / "tree", "group": f"pull-{os.getpid()}"}
        self.gateway = Namespaces("gateway", "echo ready; exec sleep infinity", ["--net"])
        self.spaces: Namespaces | None = None

    def boot(self, network: bool = True) -> None:
        given = {"boot": uuid.uuid4(), "network": "false" if network else "true"}
        script = SCRIPTS["boot"].format(**self.names, **given, devices=SCRIPTS["devices"])
        self.spaces = Namespaces("node1", script, SPACES)
        if network:
            up = "! ip link del e1 2> /dev/null"  # of a boot that has just ended
            up += f"; ip link add e1 type veth peer name e0 netns {self.spaces.pid}"
            up += "; ip link set e1 up; ip address add 10.9.0.1/24 dev e1"
            self.gateway.enter("sh", "-ec", up)
        self.until(lambda: self.call("systemctl show-environment").returncode == 0)

    def call(self, script: str, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        assert self.spaces is not None
        words = ["nsenter", "-t", str(self.spaces.pid), "-a", "-r", "-w"]
        given: dict[str, Any] = {"input": script, "text": True, "timeout": limit_s}
        return subprocess.run([*words, "sh", "-eu"], capture_output=True, check=False, **given)

    def end(self) -> int:
        """Return the signal by which the machine ended; SIGHUP is a reboot."""
        assert self.spaces is not None
        return -self.spaces.wait(LIMIT_S)

    def reboot(self, network: bool = True) -> None:
        self.run("systemctl --no-block reboot")
        assert self.end() == signal.SIGHUP
        self.boot(network)

    def crash(self) -> None:
        """End it as a loss of power does; its disk is free then."""
        if self.spaces is not None:
            self.spaces.kill()

    def remove(self) -> None:
        self.crash()
        self.gateway.kill()
        words = ["unshare", "--mount", "sh", "-ec", SCRIPTS["forget"].format(**self.names)]
        subprocess.run(words, check=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    if os.geteuid():
        pytest.skip("needs root: the image is mounted")
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("node")
    (made / "tree").mkdir()
    return made


@pytest.fixture(scope="module")
def built(site: Site, place: Path) -> tuple[Path, str]:
    """Return an image with the page's units and a bundle for its builder, and what that said."""
    recipe = Recipe(data_dir("lab"), DEFAULT_SUITE)
    store = ImageStore(default_cache() / "images", print)
    build.ensure(recipe, store, print)
    image, files = place / "disk.img", place / "files"
    subprocess.run(["cp", "--sparse=always", store.path(recipe.key()), image], check=True)
    out = site.compile(prof_sel=1, backlog=8192)
    slurm = {"controller": "node1", "nodes": "NodeName=node1 CPUs=1 RealMemory=100"}
    texts = image_files(site.key.with_suffix(".pub"), out / "rdmaprov-node", **slurm)
    texts["etc/hosts"] = "127.0.0.1 localhost\n127.0.1.1 node1\n"
    texts["etc/systemd/network/10-e0.network"] = NETWORK
    texts["root/image.bundle"] = (out / "node1.bundle").read_text()
    for name, text in texts.items():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(text)
    (files / "usr/local/sbin/rdmaprov-node").chmod(0o755)
    script = SCRIPTS["build"].format(
        image=image, tree=place / "tree", files=files, devices=SCRIPTS["devices"]
    )
    words = ["unshare", *SPACES[:2], "--fork", "--kill-child", "sh", "-eu", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return image, done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def node(built: tuple[Path, str], place: Path) -> Iterator[Node]:
    made = Node(place, built[0])
    try:
        made.boot()
        yield made
    finally:
        made.remove()
        built[0].unlink()


def test_image_has_what_a_boot_reads_and_nothing_is_left_to_set(built, node):
    assert built[1].startswith("configured: mlx5 (1 set), limits ("), built[1]
    assert "left" not in built[1]
    node.call("systemctl is-system-running --wait")
    seen = node.run(f"cat /sys/module/mlx5_core/parameters/prof_sel {BACKLOG}")
    assert seen.split() == ["1", "8192"]
    assert node.run("rdmaprov-node apply /root/image.bundle").startswith("proven: ")
    assert {each["state"] for each in node.state["roles"].values()} == {"unchanged"}
    assert node.slurmd() == STARTED, "without a bundle, the program fails and slurmd starts"


def test_node_proves_itself_after_one_reboot_and_only_then_starts_slurmd(site, node):
    node.bring((site.compile(prof_sel=0, backlog=4096) / "node1.bundle").read_text())
    node.reboot()
    assert node.end() == signal.SIGHUP, "the boot's run reboots, once"
    node.boot()
    found = node.wait()
    assert (found["verdict"], found["number"], found["why"]) == ("proven", 2, "")
    assert {each["state"] for each in found["roles"].values()} == {"unchanged"}
    assert node.slurmd() == STARTED
    node.require_order()
    node.until(lambda: node.call("sinfo -h -o %T").stdout.strip() == "idle")


def test_setting_that_is_wrong_gives_no_proof_and_slurmd_stays_down(site, node):
    node.bring((site.compile(prof_sel=0, backlog=-1) / "node1.bundle").read_text())
    node.reboot()
    found = node.wait()
    assert (found["verdict"], found["kind"]) == ("failed", "roles")
    assert f"{BACKLOG} rejects -1" in found["why"]
    assert node.slurmd() == REFUSED
    done = node.call("rdmaprov-node check")
    assert (done.returncode, f"{BACKLOG} rejects -1" in done.stderr) == (1, True), done


def test_changed_site_is_taken_at_the_next_pull(site, node):
    node.bring((site.compile(prof_sel=0, backlog=2048) / "node1.bundle").read_text())
    node.run("systemctl restart rdmaprov-node; systemctl start slurmd")
    assert (node.state["verdict"], node.state["number"]) == ("proven", 4)
    assert node.state["roles"]["limits"]["state"] == "changed"
    assert (node.run(f"cat {BACKLOG}"), node.slurmd()) == ("2048", STARTED)


def test_bundle_that_is_not_for_the_node_is_refused_and_changes_nothing(site, node):
    own, others, older = (
        (site.directory / name).read_text()
        for name in ("4/node1.bundle", "4/node2.bundle", "2/node1.bundle")
    )
    wrong = wrong_bundles(own, others, older, key(site.directory, "other"))
    node.require_refused(wrong, f"cat {BACKLOG}")
    node.run("systemctl restart rdmaprov-node")


def test_boot_after_a_loss_of_power_in_the_middle_repairs(site, node):
    node.bring((site.compile(prof_sel=0, backlog=1024, debug_mask=3) / "node1.bundle").read_text())
    node.run("touch /run/hang; systemctl --no-block restart rdmaprov-node")
    node.until(lambda: node.call("pgrep -x sleep").returncode == 0)
    assert (node.state["kind"], node.run(f"cat {BACKLOG}")) == ("interrupted", "2048")
    node.crash()
    node.boot()
    found = node.wait()
    assert found["verdict"] == "proven", found
    assert {role: each["state"] for role, each in found["roles"].items()} == {
        "mlx5": "unchanged",
        "limits": "changed",
    }
    assert (node.run(f"cat {BACKLOG}"), node.slurmd()) == ("1024", STARTED)


def test_boot_without_a_network_keeps_what_was_good(node):
    node.reboot(network=False)
    found = node.wait()
    assert (found["verdict"], found["number"]) == ("proven", 5)
    assert node.run("ip route") == ""
    assert node.slurmd() == STARTED


def test_change_that_cuts_the_network_is_reverted_by_the_node(site, node):
    node.reboot()
    node.wait()
    own = (site.directory / "5/node1.bundle").read_text()
    node.require_reverted(cutting(own, "e0", site.key), "e0", "10.9.0.1")
    node.until(lambda: node.call("ping -c 1 -W 1 10.9.0.1").returncode == 0, 30)
