"""Paths from each node to the next one, rail by rail, in a ring: not each with each."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rdmaprov.facts import devices, gids, lower_ports, rails
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import AnsweredHost, Result
from rdmaprov.facts.text import END, files_command, whole
from rdmaprov.facts.wire import RailEnd
from rdmaprov.inventory import Node, Rail

PINGS, PINGS_S = 50, 20
# A node that stalls as the last answer comes loses it: ping then waits for two round trips alone.
# Our choice: a path that loses one packet in a hundred loses one of these in 87 % of the tests.
PINGS_AGAIN = 200
REACH_S = 5  # a busy node may take seconds to answer


@dataclass(frozen=True)
class Ping:
    """What `ping` found: packets sent and answered, and its last message if it had one."""

    sent: int
    answered: int
    message: str


def ping_command(ends: Sequence[tuple[int, RailEnd, str]], mtu_bytes: int) -> str:
    """Return the command that pings with packets of full size that nobody may cut into pieces.

    Where only a part is answered it pings once more, with PINGS_AGAIN packets, which then count.

    Args:
        ends: of each rail its number, the near end, and the far end's address.
        mtu_bytes: of the network devices.
    """
    parts = []
    for number, near, far in ends:
        # IP header and ICMP header; IPv6's is 40 bytes, IPv4's 20.
        size = mtu_bytes - (48 if ":" in far else 28)
        words = f"-M do -s {size} -I {shlex.quote(near.address)} {shlex.quote(far)}"
        # Not ping's own -w: with it, -c counts answers, and one that is late looks like a loss.
        ping = f"LC_ALL=C timeout -s INT {PINGS_S} ping -q -A -c"
        parts.append(
            f"echo '== {number}'; first=$({ping} {PINGS} {words} 2>&1); "
            f"""case "$first" in *', {PINGS} '*|*', 0 '*|*ping:*|*timeout:*) echo "$first";; """
            f"*) {ping} {PINGS_AGAIN} {words} 2>&1;; esac; "
            f"echo 'neighbour:'; ip -j neigh show to {shlex.quote(far)} "
            f"dev {shlex.quote(near.netdev)} 2>&1"
        )
    return _all_at_once(parts)


def _all_at_once(scripts: Sequence[str]) -> str:
    """Return a command that runs scripts side by side: several silent rails take as long as one."""
    parts = [f'( said=$({script}); echo "$said" ) &' for script in scripts]
    return " ".join([*parts, f"wait; echo {END}"])


def reach_command(ends: Sequence[tuple[int, RailEnd, str]]) -> str:
    """Return the command that finds rails on which nothing answers, with a few small packets."""
    # 1: no answer; 2: no way to send. A ping that is not installed says nothing.
    return _all_at_once(
        [
            f"ping -q -c 3 -i 0.3 -W {REACH_S} -I {shlex.quote(near.address)} {shlex.quote(far)} "
            f"> /dev/null 2>&1; case $? in 1|2) echo 'silent {number}';; esac"
            for number, near, far in ends
        ]
    )


def parse_reach(stdout: str) -> set[int]:
    """Return the rails on which nothing answers."""
    return {int(number) for number in re.findall(r"(?m)^silent (\d+)$", whole(stdout, "ping"))}


def parse_pings(stdout: str) -> dict[int, tuple[Ping, str]]:
    """Return by rail what its ping found, and the far end's MAC address; empty if it has none."""
    parts = re.split(r"(?m)^== (\d+)\n", whole(stdout, "ping"))
    return {int(n): _ping(text) for n, text in zip(parts[1::2], parts[2::2], strict=True)}


def _ping(text: str) -> tuple[Ping, str]:
    said, _, neighbour = text.partition("neighbour:\n")
    found = re.search(r"(\d+) packets transmitted, (\d+) (?:packets )?received", said)
    errors = [line for line in said.splitlines() if line.startswith(("ping: ", "timeout: "))]
    message = errors[-1] if errors else ""
    if found is None and not message:
        raise CouldNotTell(f"ping: {said.strip()[-80:] or 'no output'}")
    if message.startswith("timeout: "):
        raise CouldNotTell("ping is not installed", "apt-get install iputils-ping")
    mac = re.search(r'"lladdr":"([0-9a-f:]+)"', neighbour)
    counted = (int(found[1]), int(found[2])) if found else (PINGS, 0)
    return Ping(*counted, message), mac[1] if mac else ""


@dataclass(frozen=True)
class Path:
    """One rail from a node to the next one; `far_netdevs` has the ports of all its rails."""

    near: Node
    far: Node
    rail: Rail
    far_rail: Rail
    ends: tuple[RailEnd, RailEnd]
    far_netdevs: tuple[str, ...]

    def risen(self, by_netdev: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
        """Return by how much the counters of the rail's ports at the far end rose together."""
        total: dict[str, int] = {}
        for netdev in self.ends[1].ports:
            for name, value in by_netdev.get(netdev, {}).items():
                total[name] = total.get(name, 0) + value
        return total

    @property
    def device(self) -> str:
        """Return what a message names: the far end is in `where`."""
        return f"{self.ends[0].netdev} (rail {self.rail.index})"

    @property
    def lacks(self) -> str:
        """Return which end has no GID that NCCL could use; empty if both have one."""
        if self.near.get("fabric_kind") == "roce":
            for node, end in zip((self.near, self.far), self.ends, strict=True):
                if end.gid_index is None:
                    return f"{node.name} {end.rdma} has no GID for NCCL of {end.address}"
        return ""

    @property
    def to(self) -> str:
        """Return the far end in words."""
        return f"{self.far.name} {self.ends[1].netdev} {self.ends[1].address}"


class FleetRunner(Protocol):
    """Many nodes, asked at the same time."""

    def run(
        self, commands: Mapping[str, str], time_limit_s: float | None = None
    ) -> Mapping[str, Result | Exception]:
        """Return what a command of each node gave, by the node's name."""


def paths(nodes: Sequence[Node], hosts: FleetRunner) -> tuple[list[Path], list[str]]:
    """Return the paths of the ring, and a line for each node that is unknown.

    An unknown node is left out, and the ring closes without it.
    """
    found, unknown = [], []
    ends: dict[str, dict[int, RailEnd]] = {}
    for name, host in _read_hosts(nodes, hosts).items():
        node = next(each for each in nodes if each.name == name)
        try:
            ends[name] = _ends(node, host)
        except CouldNotTell as error:
            unknown.append(f"{name}: {error.why}")
    ring = [node for node in nodes if node.name in ends]
    for near, far in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        here, there = ends[near.name], ends[far.name]
        netdevs = tuple(dict.fromkeys(each for end in there.values() for each in end.ports))
        planes = far.planes
        for plane, rail in near.planes.items():
            far_rail = planes.get(plane)
            if far_rail and near is not far and rail.index in here and far_rail.index in there:
                both = (here[rail.index], there[far_rail.index])
                found.append(Path(near, far, rail, far_rail, both, netdevs))
    return found, unknown


def _read_hosts(nodes: Sequence[Node], hosts: FleetRunner) -> dict[str, AnsweredHost]:
    """Return hosts that know the devices and GIDs of their node, read from all at once."""
    commands = (
        devices.LISTING,
        files_command(*devices.ATTRIBUTES),
        files_command(*gids.PATHS, quiet=True),
    )
    answers = {each: hosts.run({node.name: each for node in nodes}) for each in commands}
    return {
        node.name: AnsweredHost({each: answers[each][node.name] for each in commands})
        for node in nodes
    }


def _ends(node: Node, host: AnsweredHost) -> dict[int, RailEnd]:
    here, table = devices.read(host), gids.read(host)
    found = {}
    for rail in node.rails:
        if rail.address is None:
            continue
        port = rails.port_of(here, rail)
        rdma, address = port.require_rdma(), str(rail.address.ip)
        mac, index = here.netdev(port.require_netdev(), "address"), None
        if node.get("fabric_kind") == "roce":
            given, there = node.get("nccl_ib_gid_index"), table.get(rdma, ())
            chosen = gids.nccl_gid(there, address)
            if given != -1:
                chosen = next((gid for gid in there if gid.index == given), None)
            index = None if chosen is None else chosen.index
        ports = tuple(each.netdev for each in lower_ports.ports_of(here, rail))
        found[rail.index] = RailEnd(port.netdev, rdma, mac, address, index, ports)
    return found


def rounds(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the paths in rounds in which no node is in two of them."""
    left = list(paths)
    while left:
        busy: set[str] = set()
        now: list[Path] = []
        later: list[Path] = []
        for path in left:
            names = {path.near.name, path.far.name}
            (later if names & busy else now).append(path)
            busy |= names if not names & busy else set()
        yield now
        left = later
