"""A fleet that the whole program accepts: made-up ranks, and notaries that are real.

`rdmaprov accept` runs in this process. Its ranks and its preflight are those of tests.madeup; what
it asks about certificates runs as on a node, in a directory per node with /sys, /proc and host keys
that ssh-keygen made.
"""

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tests.madeup.accept import gate_on
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nodes import MadeUpNodes, rail_address
from tests.madeup.shape import FleetShape
from tests.site_runs import keep_validated

from rdmaprov import cli
from rdmaprov.cli import accept_run, certificate_run
from rdmaprov.node.identity import read_identity
from rdmaprov.probe.connection import Answer

SIZES = ("--sizes", "1G:2G")
VERBS = ("read", "countersign", "leave", "withdraw", "check")
GPU = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 150
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
Device Minor: \t 0
GPU Firmware: \t 570.86.15
"""  # as /proc/driver/nvidia/gpus/*/information of driver 535, with another UUID and firmware


def make_key(path: Path, comment: str = "", passphrase: str = "") -> Path:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", comment, "-f", str(path)]
    subprocess.run(words, check=True)
    return path


def public(path: Path) -> str:
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_node(root: Path, number: int, shape: FleetShape) -> None:
    """Write what a node's identity is read from, and its host key."""
    put(root, "sys/class/dmi/id/product_serial", f"SN{number:06}\n")
    put(root, "sys/class/dmi/id/sys_vendor", "Acme\n")
    put(root, "sys/module/nvidia/version", "570.86.15\n")
    put(root, "proc/sys/kernel/osrelease", "6.8.0-60-generic\n")
    for rail in range(shape.rails):
        put(root, f"sys/class/net/rail{rail}/address", f"02:00:00:00:{number:02x}:{rail:02x}\n")
        own = f"sys/class/infiniband/mlx5_{rail}"
        put(root, f"{own}/ports/1/gid_attrs/ndevs/0", f"rail{rail}\n")
        put(root, f"{own}/node_guid", f"9c63:c003:{number:04x}:{rail:04x}\n")
        put(root, f"{own}/fw_ver", "28.43.2026\n")
    for gpu in range(shape.gpus):
        uuid = f"GPU-{number:08x}-0000-4000-8000-{gpu:012x}"
        put(root, f"proc/driver/nvidia/gpus/0000:{gpu:02x}:00.0/information", GPU.format(uuid=uuid))
    (root / "etc/ssh").mkdir(parents=True)
    make_key(root / "etc/ssh/ssh_host_ed25519_key")


class CertifiedFleet(MadeUpNodes):
    """A made-up fleet in a directory: `roots` has each node's, `allowed` the operator's."""

    def __init__(self, directory: Path, shape: FleetShape | None = None) -> None:
        self.shape = shape or FleetShape(nodes=2, rails=2, gpus=2)
        self.directory = directory
        super().__init__(MadeUpFleet(self.shape))
        self.roots = {name: directory / "nodes" / name for name in self.shape.names}
        self.silent: set[str] = set()
        for number, name in enumerate(self.roots):
            make_node(self.roots[name], number, self.shape)
        self.operator = make_key(directory / "operator")
        self.allowed = directory / "allowed_signers"
        self.allowed.write_text(f"ops@example.com {public(self.operator)}\n")
        self._write_site()
        boots = {name: self.boot_id(number) for number, name in enumerate(self.roots)}
        keep_validated(directory, directory / "site", self.roots, boots)

    def _write_site(self) -> None:
        hosts = self.directory / "known_hosts"
        key = "etc/ssh/ssh_host_ed25519_key"
        hosts.write_text("".join(f"{n} {public(root / key)}\n" for n, root in self.roots.items()))
        variables = {
            "fabric_kind": self.shape.kind,
            "fabric_link_gbps": self.shape.gbps,
            "fabric_gpu_count": self.shape.gpus,
            "ansible_ssh_common_args": f"-F none -oUserKnownHostsFile={hosts}",
        }
        nodes = {"nodes": {"hosts": dict.fromkeys(self.roots)}}
        put(self.directory, "site/group_vars/all.yml", json.dumps(variables))
        put(self.directory, "site/hosts.yml", json.dumps(nodes))
        for number, name in enumerate(self.roots):
            rails = [
                {"netdev": f"rail{r}", "address": f"{rail_address(r, number)}/16", "gpus": [r]}
                for r in range(self.shape.rails)
            ]
            own = {"fabric_rails": rails, "fabric_leaf": self.shape.leaf_name(number)}
            put(self.directory, f"site/host_vars/{name}.yml", json.dumps(own))

    def _answer(self, name, command):
        try:
            asked = json.loads(command.given)
        except ValueError:
            return super()._answer(name, command)
        if asked.get("verb") == "preflight":
            answer = super()._answer(name, command)
            assert isinstance(answer, Answer)
            identity = read_identity(asked["rails"], str(self.roots[name]))
            return Answer(0, json.dumps({**json.loads(answer.out), "identity": identity}), "")
        if asked.get("verb") not in VERBS or "paths" in asked:
            return super()._answer(name, command)
        if name in self.silent:
            return Answer(1, "", "gone")
        given = json.dumps({**asked, "root": str(self.roots[name])}).encode()
        given = command.shared + given
        done = subprocess.run(["sh", "-c", command.text], input=given, capture_output=True)
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def _open(self, *_words):
        yield self

    def run(self, *words: str) -> int:
        with (
            mock.patch.object(accept_run, "open_nodes", self._open),
            mock.patch.object(certificate_run, "connect", self._open),
            gate_on(self._fleet),
        ):
            return int(cli.run([str(word) for word in words]))

    def accept(self, *words: str) -> Path:
        """Run an acceptance, which must pass; return its directory."""
        code = self.run("accept", "site", "--stages", "fleet", *words)
        assert code == 0, code
        return self.newest()

    def newest(self) -> Path:
        return max(self.directory.glob("runs/*-accept*"), key=lambda path: path.stat().st_mtime_ns)
