"""Two virtual machines by pull: from the factory to the proof, and what may go wrong.

Kernel, GRUB, systemd, network and power are those of a machine; slurmd and slurmctld are Debian's.
No controller connects to the nodes: what the tests do and see there goes by the guest's agent. The
tests are steps of one story, in their order.
"""

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from tests.cli.test_pull import key
from tests.lab.fleet import NODES, Fleet
from tests.lab.handle import LabHandle, crash
from tests.pull_nodes import (
    ANSWER_S,
    BUNDLE,
    LIMIT_S,
    REFUSED,
    STARTED,
    PullNode,
    cutting,
    image_files,
    wrong_bundles,
)
from tests.tables import cases

from rdmaprov.errors import UnreachableError
from rdmaprov.lab import monitor
from rdmaprov.lab.monitor import ProgramExit

pytestmark = pytest.mark.lab

SHARED = True
MANAGEMENT, GATEWAY = "enp0s2", "10.0.2.2"
PREPARE = cases(str(Path(__file__).with_name("test_guard.py")), "prepare")
SWAPPINESS = "/proc/sys/vm/swappiness"
INSTALL_S, FIRST_S = 600, 900  # the latter of two boots, and all changes to a factory node


class Site(Fleet):
    """The site of the lab's nodes, and who compiles and signs its bundles."""

    def __init__(self, lab: LabHandle, directory: Path) -> None:
        super().__init__(lab, directory)
        self.key, self.out = key(directory, "key"), directory / "bundles"
        self.made: list[dict[str, str]] = []
        self.variables = self.site / "group_vars/all.yml"
        self.own = {**yaml.safe_load(self.variables.read_text()), **cases(__file__, "site")}

    def compile(self, parameters: dict[str, int], **sysctl: int) -> dict[str, str]:
        """Return each node's bundle of a site with these settings more."""
        mlx5 = {**self.own["mlx5_module_parameters"]["mlx5_core"], **parameters}
        keys = {name.replace("__", "."): value for name, value in sysctl.items()}
        variables = {
            **self.own,
            "mlx5_module_parameters": {"mlx5_core": mlx5},
            "limits_sysctl": {**self.own["limits_sysctl"], **keys},
        }
        self.variables.write_text(yaml.safe_dump(variables))
        code, said = self.run("compile", "--out", str(self.out), "--key", str(self.key))
        assert code == 0, said
        self.made.append({name: (self.out / f"{name}.bundle").read_text() for name in NODES})
        return self.made[-1]


class Node(PullNode):
    """A virtual machine."""

    pause_s = 4

    def __init__(self, lab: LabHandle, name: str) -> None:
        self.lab, self.name, self.place = lab, name, lab.layout.node(name)

    def call(self, script: str, limit_s: float = LIMIT_S) -> ProgramExit:
        begin = "set -eu\nexport PATH=/usr/local/sbin:$PATH\n"
        try:
            return monitor.run_inside(self.name, self.place, begin + script, self.limit_s(limit_s))
        except UnreachableError as error:
            return ProgramExit(255, "", str(error))

    def limit_s(self, base_s: float) -> float:
        return self.lab.limit_s(base_s)

    def install(self, secret: str, files: dict[str, str]) -> None:
        packages = "munge slurmd" + (" slurmctld" if self.name == NODES[0] else "")
        given = {"packages": packages, "secret": secret}
        done = self.call(cases(__file__, "install").format(**given), INSTALL_S)
        assert done.returncode == 0, done
        for name, text in files.items():
            self.bring(text, f"/{name}", "755" if "sbin" in name else "644")
        self.run("systemctl enable rdmaprov-node < /dev/null")

    def boots(self) -> list[str]:
        return [each["boot_id"] for each in json.loads(self.run("journalctl --list-boots -o json"))]

    def boot_id(self) -> str:
        return self.call("cat /proc/sys/kernel/random/boot_id", ANSWER_S).stdout.strip()

    def reboot(self) -> None:
        """Begin a boot, and return when that before has ended."""
        before = self.boot_id()
        monitor.reboot(self.name, self.place, self.limit_s(LIMIT_S))
        self.until(lambda: self.boot_id() not in ("", before))

    def link(self, *, up: bool) -> None:
        """Pull or plug the cable of the management NIC."""
        with monitor.qemu(self.place) as machine:
            machine.ask("set_link", name="mgmt", up=up)


@pytest.fixture(scope="module")
def site(lab, tmp_path_factory):
    return Site(lab, tmp_path_factory.mktemp("pull"))


@pytest.fixture(scope="module")
def nodes(lab, site):
    """Provide machines of the factory that have the files of an image for nodes by pull."""
    bundles = site.compile({})
    public, program = site.key.with_suffix(".pub"), site.out / "rdmaprov-node"
    files = image_files(public, program, **cases(__file__, "slurm"))
    files["etc/systemd/system/slurmctld.service.d/lab.conf"] = cases(__file__, "slurmctld")
    secret, made = secrets.token_hex(32), [Node(lab, name) for name in NODES]
    with ThreadPoolExecutor(len(made)) as pool:
        list(pool.map(lambda each: each.install(secret, files), made))
    for each in made:
        each.bring(bundles[each.name])
    return made


def states(nodes: list[Node]) -> dict[str, str]:
    """Return by node its state as slurmctld has it; nothing while nobody can ask."""
    done = nodes[0].call("sinfo -h -N -o '%N %T'", ANSWER_S)
    return dict(line.split() for line in done.stdout.splitlines()) if not done.returncode else {}


def test_factory_nodes_are_proven_after_one_reboot_and_only_then_have_slurmd(nodes):
    before = {each.name: each.boots() for each in nodes}
    assert [each.call("rdmaprov-node check").returncode for each in nodes] == [1, 1]
    for each in nodes:
        each.reboot()
    seen: set[tuple[str | None, int]] = set()

    def are_proven() -> bool:
        of_slurm = states(nodes)  # first: what is idle then was proven before
        codes = {each.name: each.call("rdmaprov-node check", ANSWER_S).returncode for each in nodes}
        seen.update((of_slurm.get(name), code) for name, code in codes.items())
        return not any(codes.values())

    nodes[0].until(are_proven, FIRST_S)
    assert not {("idle", 1), ("idle", 4)} & seen
    for each in nodes:
        found = each.wait()
        assert (found["verdict"], found["why"]) == ("proven", "")
        assert {role["state"] for role in found["roles"].values()} == {"unchanged"}
        first, last = each.boots()[len(before[each.name]) :]
        assert last.replace("-", "") == found["boot_id"].replace("-", "")
        said = each.run(f"journalctl -b {first} -u rdmaprov-node -u slurmd -o cat")
        assert "pending: reboot required: " in said
        assert "default_hugepagesz=1G" in said
        assert "Started slurmd" not in said
        assert "default_hugepagesz=1G" in each.run("cat /proc/cmdline")
        assert each.slurmd() == STARTED
        each.require_order()
    nodes[0].until(lambda: states(nodes) == dict.fromkeys(NODES, "idle"))


def test_setting_that_is_wrong_gives_no_proof_and_slurmd_stays_down(site, nodes):
    node = nodes[1]
    node.bring(site.compile({}, kernel__pid_max=1)[node.name])
    node.reboot()
    found = node.wait()
    assert (found["verdict"], found["kind"]) == ("failed", "roles")
    assert "limits: /proc/sys/kernel/pid_max rejects 1" in found["why"]
    assert node.slurmd() == REFUSED
    assert node.call("rdmaprov-node check").returncode == 1
    nodes[0].until(lambda: states(nodes) == {"node1": "idle", "node2": "down*"})


def test_changed_site_is_taken_at_the_next_pull(site, nodes):
    node = nodes[1]
    node.bring(site.compile({}, vm__swappiness=11)[node.name])
    node.run("systemctl restart rdmaprov-node; systemctl start slurmd")
    assert node.state["verdict"] == "proven"
    assert node.state["roles"]["limits"]["state"] == "changed"
    assert (node.run(f"cat {SWAPPINESS}"), node.slurmd()) == ("11", STARTED)
    nodes[0].until(lambda: states(nodes) == dict.fromkeys(NODES, "idle"))


def test_bundle_that_is_not_for_the_node_is_refused_and_changes_nothing(site, nodes):
    node = nodes[1]
    own = node.run(f"cat {BUNDLE}")
    others, older = site.made[-1]["node1"], site.made[0][node.name]
    wrong = wrong_bundles(own, others, older, key(site.directory, "other"))
    node.require_refused(wrong, f"cat {SWAPPINESS}")
    assert node.slurmd() == STARTED
    assert node.run("systemctl restart rdmaprov-node; rdmaprov-node check").startswith("proven: ")


@pytest.mark.hours
def test_boot_after_a_loss_of_power_in_the_middle_repairs(lab, site, nodes):
    node = nodes[1]
    node.bring(site.compile({"debug_mask": 3}, vm__swappiness=12)[node.name])
    node.run("touch /run/hang; systemctl --no-block restart rdmaprov-node")
    node.until(lambda: node.call("pgrep -x sleep").returncode == 0)
    assert (node.state["kind"], node.run(f"cat {SWAPPINESS}")) == ("interrupted", "11")
    crash(lab, node.name)
    lab.must("up")
    found = node.wait()
    assert found["verdict"] == "proven", found
    assert found["roles"]["limits"]["state"] == "changed"
    assert (node.run(f"cat {SWAPPINESS}"), node.slurmd()) == ("12", STARTED)
    node.require_order()


def test_boot_without_a_network_keeps_what_was_good(lab, nodes):
    node = nodes[1]
    number = node.state["number"]
    node.link(up=False)
    try:
        node.reboot()
        found = node.wait()
        assert node.run(f"cat /sys/class/net/{MANAGEMENT}/carrier") == "0"
        assert (found["verdict"], found["number"]) == ("proven", number)
        assert node.slurmd() == STARTED
        node.require_order()
    finally:
        node.link(up=True)
    lab.run(node.name, "true")


def test_change_that_cuts_the_network_is_reverted_by_the_node(lab, site, nodes):
    node = nodes[1]
    node.run(PREPARE)
    cut = cutting(node.run(f"cat {BUNDLE}"), MANAGEMENT, site.key)
    node.require_reverted(cut, MANAGEMENT, GATEWAY)
    lab.disconnect()
    lab.run(node.name, "true")
