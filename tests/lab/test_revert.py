"""What apply wrote on virtual machines is taken back: they are what the factory made, again."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.lab.fleet import NODES, Fleet
from tests.tables import cases

pytestmark = [pytest.mark.lab, pytest.mark.hours]

LIMITS = "/etc/security/limits.d/99-rdmaprov-memlock.conf"
ADMINS = "cd /etc; echo NCCL_DEBUG=WARN > nccl.conf; chown 7:8 nccl.conf; chmod 640 nccl.conf"
# Each path: kind, mode, owner, and content or target. What is generated is compared by what it
# says; packages stay, so their files and the links of their services do.
TREE = cases(__file__, "tree")
PACKAGES = "dpkg-query -W -f '${Package}\\n'"
GENERATED = ("/boot/grub/grub.cfg", "/etc/ld.so.cache", "/var/lib/rdmaprov/replaced")
STORE = "/var/lib/rdmaprov"  # of what was replaced, so it stays
# grub.cfg: what the first entry gives the kernel; initramfs: its names, and its modprobe.d.
SAYS = cases(__file__, "says")
RUNNING = cases(__file__, "running")


def look(lab, node):
    """Return what is on a node below the directories that roles write to, and what runs."""
    tree = json.loads(lab.run(node, TREE))
    packages = set(lab.run(node, PACKAGES).split())
    return tree, packages, lab.run(node, SAYS), lab.run(node, RUNNING).replace("tentative", "")


def differences(lab, before, after):
    """Return by node what differs, without what packages brought that stay."""
    found = {}
    for node in before:
        (old, old_packages, *old_words), (new, new_packages, *new_words) = before[node], after[node]
        more = sorted(new_packages - old_packages)
        theirs = lab.run(node, f"dpkg -L {' '.join(more)}").split() if more else []
        names = {Path(path).name for path in theirs}
        paths = [
            path
            for path in sorted({*old, *new})
            if old.get(path) != new.get(path)
            and path not in theirs
            and Path(path).name.lstrip("SK0123456789") not in names
            and not (path.startswith(GENERATED) or path == STORE)
        ]
        lines = [
            line
            for one, other in zip(old_words, new_words, strict=True)
            for line in {*one.splitlines()} ^ {*other.splitlines()}
            if line.split()[0] not in names
        ]
        if paths or lines:
            found[node] = {path: (old.get(path), new.get(path)) for path in paths}, sorted(lines)
    return found


def state(lab):
    return {node: look(lab, node) for node in NODES}


def test_provisioned_nodes_are_factory_nodes_again_and_forward(lab, tmp_path):
    """By a kept plan; with a file of an administrator's since, an interrupt, and a reboot."""
    fleet = Fleet(lab, tmp_path)
    for node in NODES:
        lab.run(node, ADMINS)
    factory = state(lab)
    code, said = fleet.run("plan", "--output", str(tmp_path / "kept.plan"))
    assert code == 5, said
    code, said = fleet.execute("apply", str(tmp_path / "kept.plan"))
    assert code == 0, said
    run = fleet.newest().name
    provisioned = state(lab)
    assert set(differences(lab, factory, provisioned)) == {*NODES}

    lab.run("node2", f"echo '# mine' >> {LIMITS}")
    cut = fleet.start_until("revert", "ansible.log", "TASK [Take back mtu]", run)
    cut.send_signal(signal.SIGINT)
    code, said = fleet.end(cut)
    assert code == 130, said
    code, said = fleet.run("revert", run)
    assert code == 1, said
    assert f"limits: {LIMITS} was changed since. It is left alone" in said
    lab.run("node2", f"grep -q '# mine' {LIMITS} && sed -i '$d' {LIMITS}")
    assert differences(lab, {"node2": provisioned["node2"]}, {"node2": look(lab, "node2")}) == {}
    code, said = fleet.run("revert", run)
    assert code == 5, said
    for node in NODES:
        lab.must("reboot", node)
    assert differences(lab, factory, state(lab)) == {}
    code, said = fleet.run("revert", run)
    assert (code, f"{len(NODES)} nodes: {len(NODES)} unchanged" in said) == (0, True), said

    fleet.apply("--limit", "node1")
    assert differences(lab, {"node1": provisioned["node1"]}, {"node1": look(lab, "node1")}) == {}
