"""Counters of ports: what the NIC and the RDMA device have counted since they started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from rdmaprov.facts.devices import INFINIBAND
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import output, read_files, run_program

# Physical errors of a port, by the names of mlx5's `ethtool -S`.
# Linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst
PHYSICAL = ("rx_crc_errors_phy", "rx_symbol_err_phy", "rx_in_range_len_errors_phy")
# Errors of an InfiniBand port. IBTA specification, PortCounters.
INFINIBAND_ERRORS = (
    "symbol_error",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)


def ethtool_command(netdev: str) -> str:
    """Return the command that prints a network device's counters."""
    return f"ethtool -S {shlex.quote(netdev)}"


def ethtool(host: Host, netdev: str) -> dict[str, int]:
    """Return a network device's own counters by name; none for a driver without any.

    Raises:
        CouldNotTell: ethtool is not installed, or failed.

    """
    command = ethtool_command(netdev)
    done = run_program(host, command)
    if "no stats available" in done.stderr:
        return {}
    if done.rc != 0:
        raise CouldNotTell(f"{command}: {done.last}")
    return parse_ethtool(done.stdout, command)


def parse_ethtool(text: str, command: str) -> dict[str, int]:
    """Return what `ethtool -S` printed.

    Raises:
        CouldNotTell: it is not that, or a value is no number.

    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != "NIC statistics:":
        raise CouldNotTell(f"{command}: {text[:60]!r} is not what ethtool -S prints")
    found = {}
    for line in lines[1:]:
        match = re.fullmatch(r"\s+(.+?):\s*(\d+)", line)
        if match is None:
            raise CouldNotTell(f"{command}: {line[:60]!r} is not a counter")
        found[match[1]] = int(match[2])
    return found


def pause(host: Host, netdev: str) -> tuple[bool, bool]:
    """Return whether a port respects global pause, and whether it sends it."""
    command = f"ethtool -a {shlex.quote(netdev)}"
    return parse_pause(output(host, command), command)


def parse_pause(text: str, command: str) -> tuple[bool, bool]:
    """Return what `ethtool -a` printed, as `pause` does."""
    found = [re.search(rf"(?m)^{each}:\s+(on|off)$", text) for each in ("RX", "TX")]
    if found[0] is None or found[1] is None:
        raise CouldNotTell(f"{command}: {text[:60]!r} does not show whether pause is on")
    return found[0][1] == "on", found[1][1] == "on"


def rdma(host: Host) -> dict[str, Mapping[str, int]]:
    """Return the counters of each RDMA device's port 1, by name; those it shows.

    Raises:
        CouldNotTell: one is no number.

    """
    base = f"{INFINIBAND}/*/ports/1/"
    files = read_files(host, base + "counters/*", base + "hw_counters/*", quiet=True)
    found: dict[str, dict[str, int]] = {}
    pattern = INFINIBAND + r"/([^/]+)/ports/1/(?:hw_)?counters/([^/]+)"
    for match, text in files.matching(pattern):
        if match[2] == "lifespan":
            continue
        # The kernel prints "N/A (no PMA)" where the port has no such counter.
        if text.startswith("N/A"):
            continue
        if not text.isdigit():
            raise CouldNotTell(f"{match[0]} shows {text[:40]!r}, not a number")
        found.setdefault(match[1], {})[match[2]] = int(text)
    return dict(found)
