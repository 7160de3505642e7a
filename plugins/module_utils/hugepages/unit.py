"""The unit that takes hugepages at boot, before anything else uses memory. Runs on the node.

sysctl.d cannot do it: vm.nr_hugepages knows one size and no NUMA node.
"""

from __future__ import annotations

from ..plan import CONFIGURED, Change, Plan
from .hugetlb import directory_of

UNIT = "rdmaprov-hugepages.service"
PATH = f"/etc/systemd/system/{UNIT}"
LINKS = "/etc/systemd/system/sysinit.target.wants"

# As in hugetlb.resize, without dropping caches: at boot there are none. Arguments: file, pages, …
SCRIPT = (
    'failed=0; while [ "$#" -gt 0 ]; do for attempt in 1 2 3; do echo "$2" > "$1"; '
    'read -r given < "$1"; [ "$given" != "$2" ] || break; '
    "echo 1 > /proc/sys/vm/compact_memory; done; "
    '[ "$given" = "$2" ] || { echo "$1: $given of $2 pages"; failed=1; }; '
    'shift 2; done; exit "$failed"'
)
_TEXT = """\
# Written by rdmaprov (hugepages); changes here are lost.
[Unit]
Description=Take the hugepages that rdmaprov describes
DefaultDependencies=no
After=systemd-sysctl.service
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '{script}' sh{arguments}

[Install]
WantedBy=sysinit.target
"""


def at_boot(plan: Plan, pools: dict[tuple[int, int], int]) -> None:
    """Have the pools get their pages at each boot.

    Args:
        pools: pages by page size in KiB and NUMA node; none of them for no unit.
    """
    enabled = UNIT in plan.machine.names(LINKS)
    if pools:
        if plan.file(PATH, unit(pools)):
            plan.then(["systemctl", "daemon-reload"])
        if not enabled:
            change = Change(CONFIGURED, UNIT, "start at boot", "disabled", "enabled")
            plan.command(change, ["systemctl", "enable", UNIT])
        return
    if enabled:
        change = Change(CONFIGURED, UNIT, "start at boot", "enabled", "disabled")
        plan.add(change, lambda: plan.machine.remove(f"{LINKS}/{UNIT}"))
    if plan.absent(PATH):
        plan.then(["systemctl", "daemon-reload"])


def unit(pools: dict[tuple[int, int], int]) -> str:
    """Return the unit's text; large pages are taken first, and pools that shrink before others."""
    order = sorted(pools.items(), key=lambda item: (-item[0][0], item[1], item[0][1]))
    arguments = "".join(
        f" \\\n  {directory_of(numa_node, kib)}/nr_hugepages {pages}"
        for (kib, numa_node), pages in order
    )
    return _TEXT.format(script=SCRIPT.replace("$", "$$"), arguments=arguments)
