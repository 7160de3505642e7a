"""What apply wrote on virtual machines is taken back: they are what the factory made, again."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.lab.fleet import NODES, Fleet

pytestmark = pytest.mark.lab

LIMITS = "/etc/security/limits.d/99-rdmaprov-memlock.conf"
ADMINS = "cd /etc; echo NCCL_DEBUG=WARN > nccl.conf; chown 7:8 nccl.conf; chmod 640 nccl.conf"
# Each path: kind, mode, owner, and content or target. What is generated is compared by what it
# says; packages stay, so their files and the links of their services do.
TREE = """python3 - <<'END'
import hashlib, json, os, stat
found = {}
for top in ("/etc", "/usr/local", "/var/lib/rdmaprov", "/boot/grub"):
    for directory, names, files in os.walk(top):
        for path in [directory, *(os.path.join(directory, name) for name in names + files)]:
            own = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(own.st_mode) else ""
            if stat.S_ISREG(own.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            found[path] = [oct(own.st_mode), own.st_uid, own.st_gid, content]
print(json.dumps(found))
END"""
PACKAGES = "dpkg-query -W -f '${Package}\\n'"
GENERATED = ("/boot/grub/grub.cfg", "/etc/ld.so.cache", "/var/lib/rdmaprov/replaced")
STORE = "/var/lib/rdmaprov"  # of what was replaced, so it stays
# grub.cfg: what the first entry gives the kernel; initramfs: its names, and its modprobe.d.
SAYS = """
grep -m 1 '^[[:space:]]*linux' /boot/grub/grub.cfg | tr -s ' \\t' '\\n' | grep -v '^root=\\|^$'
image=/boot/initrd.img-$(uname -r)
lsinitramfs $image | sort | sha256sum
there=$(mktemp -d); unmkinitramfs $image $there
(cd $there; find . -path '*modprobe.d/*' -type f -exec sha256sum {} + | sort); rm -r $there
"""
RUNNING = """
tr ' ' '\\n' < /proc/cmdline | grep -v '^root=\\|^BOOT_IMAGE='
sysctl -a -r '^(kernel\\.numa_bal|vm\\.(nr_hugepages|swappiness|zone_reclaim)|net\\.ipv[46]\\.)'
head -n 99 /sys/kernel/mm/hugepages/*/nr_hugepages /sys/module/mlx5_core/parameters/*
grep . /sys/class/net/en*/mtu; ip -4 -br address; ip rule; su - provisioner -c 'ulimit -l'
cd /sys/class/net; for each in en*; do for it in app ets pfc; do dcb $it show dev $each; done; done
ls -d /sys/kernel/config/rdma_cm/* 2> /dev/null; true
"""


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
    again = {"node1": look(lab, "node1")}
    assert differences(lab, {"node1": provisioned["node1"]}, again) == {}
