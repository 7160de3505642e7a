"""Counters of ports: how much their errors grow while a node is read, and whether pause is on."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.devices import INFINIBAND, NET
from rdmaprov.facts.errors import CouldNotTell, NotInstalled
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, output, whole
from rdmaprov.node.counter_names import names_at

# What counts errors of a port's own link. Not the packets that another link spoiled, which arrive
# marked so (PortRcvRemotePhysicalErrors).
PHYSICAL = names_at("ethtool", "validate")
INFINIBAND_ERRORS = names_at("port", "validate")
INTERVAL_S = 5
_FILES = " ".join(f"{INFINIBAND}/*/ports/1/counters/{name}" for name in INFINIBAND_ERRORS)
# All of a node's ports in one command, so that it waits once, and only if a counter is not zero.
GROWTH = (
    "command -v ethtool > /dev/null || echo no ethtool; "
    f"sample() {{ for d in {NET}/*/device; do "
    f'[ -e "$d" ] || continue; d=${{d%/device}}; d=${{d##*/}}; echo "@ $d"; '
    f"""ethtool -S "$d" 2>&1 | grep -aE '^ +({"|".join(PHYSICAL)}):|^[^ N]'; """
    f"done; grep -aHs '' {_FILES}; }}; "
    'first=$(sample); echo "$first"; case $first in *:[1-9]*|*": "[1-9]*) '
    f"sleep {INTERVAL_S}; echo ==; sample ;; esac; echo {END}"
)
_Counters = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Growth:
    """By how much error counters rose; `failures`: by network device, why it has no counters."""

    rises: Mapping[str, Mapping[str, int]]
    failures: Mapping[str, str]

    def of(self, device: str) -> Mapping[str, int]:
        """Return the rises of a device; none for one without such counters."""
        if device in self.failures:
            raise CouldNotTell(f"ethtool -S {device}: {self.failures[device]}")
        return self.rises.get(device, {})


def growth(host: Host) -> Growth:
    """Return by how much each error counter rose in INTERVAL_S.

    What a port has counted since its firmware started includes the errors of a cable that has
    since been replaced. If all counters are zero, nothing waits for them.
    """
    return parse_growth(host.run(GROWTH).stdout)


def parse_growth(text: str) -> Growth:
    """Return what GROWTH printed, as `growth` does."""
    said = whole(text, "the ports' counters")
    if said.startswith("no ethtool\n"):
        raise NotInstalled("ethtool -S: not installed")
    first, waited, second = said.partition("==\n")
    before, failures = _sample(first)
    after, more = _sample(second) if waited else (before, {})
    rises = {
        device: {name: value - before[device].get(name, value) for name, value in own.items()}
        for device, own in after.items()
        if device in before
    }
    return Growth(rises, {**failures, **more})


def _sample(text: str) -> tuple[_Counters, dict[str, str]]:
    found: _Counters = {}
    failures: dict[str, str] = {}
    netdev = ""
    for line in text.splitlines():
        port = re.fullmatch(rf"{INFINIBAND}/([^/]+)/ports/1/counters/(\w+):(.*)", line)
        counter = re.fullmatch(r" +(\w+): (.*)", line)
        if line.startswith("@ "):
            netdev = line.removeprefix("@ ")
            found[netdev] = {}
        elif port is not None:
            # The kernel prints "N/A (no PMA)" where the port has no such counter.
            if not port[3].startswith("N/A"):
                found.setdefault(port[1], {})[port[2]] = _number(port[3], line)
        elif counter is not None and netdev:
            found[netdev][counter[1]] = _number(counter[2], line)
        elif netdev and line not in ("", "no stats available"):
            failures[netdev] = line[:60]
        elif line:
            raise CouldNotTell(f"the ports' counters: {line[:60]!r} is not a counter")
    return found, failures


def _number(text: str, line: str) -> int:
    if not text.isdecimal():
        raise CouldNotTell(f"the ports' counters: {line[:60]!r} is not a counter")
    return int(text)


def pause(host: Host, netdev: str) -> tuple[bool, bool]:
    """Return whether a port respects global pause, and whether it sends it."""
    command = f"ethtool -a {shlex.quote(netdev)}"
    text = output(host, command)
    found = [re.search(rf"(?m)^{each}:\s+(on|off)$", text) for each in ("RX", "TX")]
    if found[0] is None or found[1] is None:
        raise CouldNotTell(f"{command}: {text[:60]!r} does not show whether pause is on")
    return found[0][1] == "on", found[1][1] == "on"
