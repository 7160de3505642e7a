"""A management NIC with DHCP and a rail, by real netplan and real systemd-networkd.

Runs as root in namespaces of its own, with a bus and /run of its own. There is no service manager:
`systemctl show` is a stand-in that says when systemd-networkd was started here.
Prints, as JSON, what the plan says and what systemd-networkd did from the change on.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from plugins.module_utils.links import Links
from plugins.module_utils.machine import Machine
from plugins.module_utils.plan import Plan
from plugins.module_utils.rails import Rail
from tests.tables import cases

PLACE = cases(__file__, "place")
SYSTEMCTL = """#!/bin/sh
echo ActiveEnterTimestamp=@%d
echo ActiveEnterTimestampMonotonic=%d
"""
RAIL_FIRST = ("ens1", "eno1")
LOG = Path("/run/networkd.log")


def start() -> subprocess.Popen[bytes]:
    subprocess.run(["sh", "-c", PLACE], check=True)
    time.sleep(1.1)  # whole seconds are compared
    stand_in = Path("/usr/local/sbin/systemctl")
    stand_in.write_text(SYSTEMCTL % (time.time(), time.monotonic_ns() // 1000))
    stand_in.chmod(0o755)
    log = LOG.open("wb")
    variables = {"SYSTEMD_LOG_TARGET": "console", "SYSTEMD_LOG_LEVEL": "debug"}
    daemon = subprocess.Popen(
        ["/usr/lib/systemd/systemd-networkd"], stderr=log, stdout=log, env=variables
    )
    wait_for_lease(1)
    return daemon


def wait_for_lease(count: int) -> None:
    """Wait for the management NIC's address, and for nothing to happen any more."""
    for _ in range(150):
        if LOG.read_text(errors="replace").count("eno1: DHCPv4 address 192.0.2.") >= count:
            time.sleep(1)
            return
        time.sleep(0.1)
    raise SystemExit("no lease:\n" + LOG.read_text(errors="replace")[-3000:])


def main(before: str, with_role: bool) -> None:
    """Do what a scenario has before the change, then the change."""
    daemon = start()
    try:
        if before:
            time.sleep(1.1)
            subprocess.run(["sh", "-c", before], check=True)
        mark = len(LOG.read_text(errors="replace"))
        machine = Machine()
        plan, links = Plan(machine), Links(machine, "auto")
        links.of("ens1").mtu(plan, Rail(0, "ens1", "mlx5_0", "", "198.18.0.1/24", ""), 1400)
        links.settle(plan)
        if with_role:
            os.umask(0o077)  # as an administrator's login may have it
            for step in plan.steps:
                step.do()
        else:  # as it was done once
            path = "/etc/netplan/91-rdmaprov-mtu-ens1.yaml"
            machine.write(path, next(d["after"] for d in plan.diffs()), 0o600)
            subprocess.run(["sh", "-c", "netplan generate; networkctl reload"], check=True)
        time.sleep(2)
        log = LOG.read_text(errors="replace")[mark:]
        again, links = Plan(machine), Links(machine, "auto")
        links.of("ens1").mtu(again, Rail(0, "ens1", "mlx5_0", "", "198.18.0.1/24", ""), 1400)
        links.settle(again)
        file, beside = (f"/run/systemd/network/10-netplan-{each}.network" for each in RAIL_FIRST)
        found = {
            "interrupts": plan.interrupts,
            "notes": plan.notes,
            "reconfigured": sorted(set(re.findall(r"(\S+): Reconfiguring with", log))),
            "dhcp": [line for line in log.splitlines() if re.search("eno1: DHCP", line)],
            "file": machine.read(file),
            "is readable as the others": machine.access(file) == machine.access(beside),
            "again": [again.changes(), again.notes],
        }
        sys.stdout.write(json.dumps(found) + "\n")
    finally:
        daemon.kill()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "role")
