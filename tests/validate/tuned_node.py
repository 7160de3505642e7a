"""TuneD on a made-up node."""

from __future__ import annotations

from tests.validate.fake_node import FakeNode

# TuneD sets vm.swappiness again as /etc/sysctl.d says it.
TUNED = """\
[main]
summary=Nodes of ours
include=hpc

[cpu]
governor=performance|schedutil

[sysctl]
vm.swappiness = 60
vm.dirty_ratio=${f:strip: 40}

[bootloader]
cmdline_ours=+audit=0
"""


def tuned(node: FakeNode) -> None:
    """Have TuneD with a profile that sets nothing else than the site."""
    node.unit("tuned.service", MainPID="720")
    node.put("/etc/tuned/active_profile", "node-of-ours\n")
    node.put("/etc/tuned/tuned-main.conf", "daemon = 1\n# reapply_sysctl = 0\nreapply_sysctl = 1\n")
    node.put("/etc/tuned/profiles/node-of-ours/tuned.conf", TUNED)
    base = "/usr/lib/tuned/hpc/tuned.conf"
    node.put(base, "[cpu]\ngovernor=schedutil\n\n[sysctl]\nkernel.numa_balancing=0\n")
