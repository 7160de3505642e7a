"""The switch port that each port of a node is cabled to, by LLDP.

Read from lldpd, else from lldpad, else from the wire: then a program listens at all ports at the
same time for one interval, which costs as long as the slowest switch takes to announce itself.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell, NotInstalled
from rdmaprov.facts.host import Host
from rdmaprov.facts.lldp_daemons import Neighbors, parse_lldpad, parse_lldpd
from rdmaprov.facts.lldp_dcbx import OddUnit
from rdmaprov.facts.lldp_unit import LldpNeighbor, parse_frame
from rdmaprov.facts.memo import remember
from rdmaprov.facts.text import Output, node_command, run_program

LLDPCTL = "lldpctl -f json0"
_VERSION = "lldpctl -v"
_LLDPTOOL = (
    "lldptool -p || exit 3; for d in /sys/class/net/*; do "
    'lldptool -t -n -R -i "${d##*/}" 2> /dev/null; done; true'
)
# IEEE 802.1AB-2016, 9.2.5.7: a station announces itself each 30 s unless it is set otherwise.
LISTEN_S = 31
FRAMES = "frames"
_MARGIN_S = 14  # for a node that is slow to start Python
# lldpd's NEWS: from 1.0.15 on, DCBX's TLVs are kept.
_KEEPS_DCBX = (1, 0, 15)


@dataclass(frozen=True)
class Neighborhood:
    """The neighbours of a node's ports."""

    source: str  # what told: lldpd, lldpad, or FRAMES of the wire; empty if nothing was asked
    look: str  # the command that shows it, for a person; {} stands for the port
    neighbors: Neighbors
    errors: Mapping[str, str]  # by port, why it could not be listened at
    gaps: str = ""  # what the source does not tell, in words; empty if it tells all

    def of(self, netdev: str) -> LldpNeighbor | None:
        """Return a port's neighbour, None if nothing was heard.

        A switch is taken before a host, such as another agent on the card itself.

        Raises:
            CouldNotTell: what was heard is odd, or there are several.
        """
        if netdev in self.errors:
            raise CouldNotTell(f"{netdev}: cannot listen for LLDP: {self.errors[netdev]}")
        heard = self.neighbors.get(netdev, [])
        for each in heard:
            if isinstance(each, OddUnit):
                raise CouldNotTell(
                    f"{netdev}: an LLDP announcement is odd: {each}", self.at(netdev)
                )
        there = [each for each in heard if isinstance(each, LldpNeighbor) and each.ttl_s]
        by_end = {(each.chassis, each.port): each for each in there}
        switches = {end: each for end, each in by_end.items() if each.forwards}
        ends = list((switches or by_end).values())
        if len(ends) > 1:
            names = ", ".join(each.label for each in ends)
            raise CouldNotTell(f"{netdev} has {len(ends)} neighbours: {names}", self.at(netdev))
        return ends[0] if ends else None

    def at(self, netdev: str) -> str:
        """Return the command that shows what was read of a port."""
        return self.look.format(netdev)


def read(host: Host, *, listens: bool) -> Neighborhood:
    """Return a node's neighbours.

    Args:
        listens: whether to listen on the wire where no daemon tells, or one that drops DCBX.
    """
    found = _ask_lldpd(host) or _ask_lldpad(host)
    if found is not None and not found.gaps:
        return found
    if listens:
        return _of_frames(host)
    return found or Neighborhood("", "", {}, {}, "no LLDP daemon runs")


def of_lldpd(found: Neighbors, gaps: str = "") -> Neighborhood:
    """Return neighbours that lldpd told of."""
    return Neighborhood("lldpd", "lldpctl {}", found, {}, gaps)


def of_lldpad(found: Neighbors) -> Neighborhood:
    """Return neighbours that lldpad told of."""
    return Neighborhood("lldpad", "lldptool -t -n -i {}", found, {})


def _ask_lldpd(host: Host) -> Neighborhood | None:
    """Return what lldpd knows, None if it is not installed or does not run."""
    done = _run(host, LLDPCTL)
    if done is None or (done.rc != 0 and _is_not_running(done.stderr)):
        return None
    if done.rc != 0:
        raise CouldNotTell(f"{LLDPCTL}: {done.last}; it requires root: set ansible_become: true")
    found = parse_lldpd(done.stdout, LLDPCTL)
    return of_lldpd(found, _gaps(host))


def _is_not_running(stderr: str) -> bool:
    absent = "No such file" in stderr or "Connection refused" in stderr
    return absent and "unable to connect to socket" in stderr


def _gaps(host: Host) -> str:
    """Return what lldpd does not tell, by its version."""
    shown = run_program(host, _VERSION).stdout.strip()
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", shown)
    if numbers is None:
        raise CouldNotTell(f"{_VERSION} shows {shown[:40]!r}, not a version")
    version = tuple(map(int, numbers.groups()))
    return "" if version >= _KEEPS_DCBX else f"lldpd {numbers[0]} drops DCBX (1.0.15 keeps it)"


def _ask_lldpad(host: Host) -> Neighborhood | None:
    """Return what lldpad knows, None if it is not installed or does not run."""
    done = _run(host, f"sh -c {shlex.quote(_LLDPTOOL)}")
    if done is None or done.rc == 3:
        return None
    return of_lldpad(parse_lldpad(done.stdout))


def _run(host: Host, command: str) -> Output | None:
    try:
        return run_program(host, command)
    except NotInstalled:
        return None


def _of_frames(host: Host) -> Neighborhood:
    """Return what is announced on the wire; all nodes listen at the same time."""
    command = node_command("lldp_frames.py", f"{LISTEN_S:g}")
    done = run_program(host, command, time_limit_s=LISTEN_S + _MARGIN_S, everywhere=True)
    if done.rc != 0:
        raise CouldNotTell(f"listening for LLDP: {done.last}")
    return parse_frames(done.stdout)


@remember
def parse_frames(stdout: str) -> Neighborhood:
    """Return the neighbours in what node/lldp_frames.py printed."""
    found: Neighbors = {}
    errors = {}
    for line in stdout.splitlines():
        kind, _, rest = line.partition(" ")
        netdev, _, value = rest.partition(" ")
        if kind == "port":
            found.setdefault(netdev, [])
        elif kind == "error":
            errors[netdev] = value + _needs_root(value)
        elif kind == "frame" and re.fullmatch(r"(?:[0-9a-f]{2})+", value):
            found.setdefault(netdev, []).append(_parsed(bytes.fromhex(value)))
        else:
            raise CouldNotTell(f"listening for LLDP: {line[:60]!r} is not a frame")
    look = "tcpdump -vv -c 1 -i {} ether proto 0x88cc"
    return Neighborhood(FRAMES, look, found, errors)


def _needs_root(why: str) -> str:
    return "; requires root: set ansible_become: true" if "not permitted" in why else ""


def _parsed(frame: bytes) -> LldpNeighbor | OddUnit:
    try:
        return parse_frame(frame)
    except OddUnit as error:
        return error
