"""What to do about a problem of a subnet."""

from __future__ import annotations

from dataclasses import replace

from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.problem import word

_REMEDIES = {
    "missing": "Look at the port on the node (ibstat), at its cable, and at the switch's port",
    "missing switch or cable": "Look at the cable, and at the switches at both of its ends",
    "extra": "Write it into the site, or find out whose it is",
    "cabling": "Move the cable to where the plan has it, or correct the plan (fabric_rails, leaf)",
    "rate": "Reseat or replace the cable; compare what both ends support (iblinkinfo)",
    "errors": "Clean or replace the cable; clear the counters (perfquery -R) and read them again",
    "port": "Look at the port's state (ibportstate) and at the log of the subnet manager",
    "manager": "Have exactly one master: start opensm, or lower the priority of the others",
    "manager of a node": "Look at its unit on the node (systemctl status 'rdmaprov-opensm-*'), then"
    " run: rdmaprov apply SITE --roles subnet_manager",
    "routes": "Have the subnet manager write its tables again, and read its log",
    "credit loop": "Have the subnet manager route without loops, such as by ftree or updn",
    "balance": "Have the subnet manager write its tables again: look at its routing engine, its"
    " root GUIDs, and for tables or weights written by hand",
    "engine": "Look at the engines that the manager was given, and at its log: where an engine does"
    " not suit the fabric, opensm takes the next one",
    "partition": "Give the port this key in the subnet manager's partitions.conf, with its"
    " membership (=full or =limited), and have the manager read it again",
    "sharp": "Look at the switch's firmware and its SHARP setting, and at the log of sharp_am",
    "not verified": "Remove the cause, then run the same command again",
}


def with_remedy(found: Finding) -> Finding:
    """Return a finding that is placed on the site, with what to do about it."""
    kind = word(found)
    if kind == "missing" and not found.node:
        kind = "missing switch or cable"
    if kind == "manager" and found.node:
        kind = "manager of a node"
    return replace(found, remedy=_REMEDIES[kind])
