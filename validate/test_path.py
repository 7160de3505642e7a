"""Traffic between nodes on each rail: full-size packets, verbs, priority on arrival.

Nodes are taken in a ring, so that each sends to one and receives from one. No node is an end of
two exchanges at the same time: what its ports count belongs to one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

from rdmaprov.facts import CouldNotTell, ring, wire
from rdmaprov.facts.ring import Path, rounds
from rdmaprov.facts.wire import Exchange
from rdmaprov.inventory import Fleet
from rdmaprov.validate.hosts import Hosts
from rdmaprov.validate.verdict import Setting, not_applicable, rdmaprov, settle

pytestmark = pytest.mark.path

_TIME_LIMIT_S = 60
_T = TypeVar("_T")


@dataclass(frozen=True)
class Reached:
    """The paths of the ring: those on which something answers, the silent ones, what is unknown.

    Each node is asked once, for all of its rails: whatever else is tried on a silent path ends at
    its time limit, and exchanges are tried one after the other.
    """

    paths: tuple[Path, ...]
    silent: tuple[Path, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Pinged:
    """Pings by path, with the far end's MAC address, paths on which nothing answers, unknowns."""

    pings: tuple[tuple[Path, ring.Ping, str], ...]
    silent: tuple[Path, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Traffic:
    """Exchanges by path, and what is unknown."""

    exchanges: tuple[tuple[Path, Exchange], ...]
    unknown: tuple[str, ...]


@pytest.fixture(scope="module")
def reached(fleet: Fleet, hosts: Hosts) -> Reached:
    """Return on which paths something answers."""
    return reach_all(fleet, hosts)


@pytest.fixture(scope="module")
def pinged(reached: Reached, hosts: Hosts) -> Pinged:
    """Return what full-size pings found on every path."""
    return ping_all(reached, hosts)


@pytest.fixture(scope="module")
def marked(fleet: Fleet, reached: Reached, hosts: Hosts) -> Traffic:
    """Return RDMA writes with NCCL's traffic class on every path."""
    return marked_traffic(fleet, reached, hosts)


def marked_traffic(fleet: Fleet, reached: Reached, hosts: Hosts) -> Traffic:
    """Return RDMA writes with NCCL's traffic class on every path."""

    def commands(path: Path) -> tuple[str, str]:
        mtu, traffic_class = path.near.get("mtu_rdma_bytes"), path.near.get("nccl_ib_tc")
        return wire.rdma_writes(*path.ends, path.rail.index, mtu, traffic_class, path.far_netdevs)

    _needs_roce(fleet)
    return _exchanged(reached, hosts, commands)


def test_full_packets_pass_uncut(pinged: Pinged) -> None:
    """Every MTU-sized packet passes without fragmentation."""
    lost = [(path, "no answer, not even to small ones") for path in pinged.silent]
    for path, ping, _ in pinged.pings:
        if ping.message or ping.answered < ping.sent:
            seen = f"{ping.answered} of {ping.sent} answered"
            lost.append((path, f"{seen}: {ping.message}" if ping.message else seen))
    findings = [
        _finding(
            path,
            "ping with full-size packets",
            seen,
            "all",
            "fabric_mtu_bytes",
            f"ping -M do -I {path.ends[0].address}",
        )
        for path, seen in lost
    ]
    settle(findings, pinged.unknown)


def test_neighbours_are_the_rails(pinged: Pinged) -> None:
    """Only the network device that has an address answers ARP for it (no ARP flux)."""
    findings = []
    for path, _, mac in pinged.pings:
        if path.rail.address is None or path.far_rail.address is None:
            continue
        if not mac or path.far_rail.address.ip not in path.rail.address.network:
            continue  # a router is the neighbour
        wanted = path.ends[1].mac
        if mac != wanted:
            findings.append(
                _finding(
                    path,
                    "MAC address of its neighbour",
                    mac,
                    wanted,
                    "fabric_source_routing",
                    "ip neigh show",
                )
            )
    settle(findings, pinged.unknown)


def test_verbs_pingpong_over_nccls_gid(reached: Reached, hosts: Hosts) -> None:
    """A queue pair over NCCL's GID carries messages."""

    def commands(path: Path) -> tuple[str, str]:
        return wire.pingpong(*path.ends, path.rail.index, path.near.get("mtu_rdma_bytes"))

    traffic = _exchanged(reached, hosts, commands)
    settle(_failures(traffic, "ibv_rc_pingpong", "nccl_ib_address_family"), traffic.unknown)


def test_data_arrives_on_lossless_priority(marked: Traffic) -> None:
    """RDMA writes with NCCL's traffic class arrive on the lossless priority alone.

    No other's: not even a part of the data may be lossy.
    """
    _judge_priority(marked, "ib_write_bw", "nccl_ib_tc", wire.MESSAGES)


def test_data_stays_on_its_rail(marked: Traffic) -> None:
    """RDMA writes on a rail arrive on the same rail of the receiver alone."""
    findings = _failures(marked, "ib_write_bw", "nccl_ib_tc")
    for path, exchange in marked.exchanges:
        priority = path.far.get("fabric_lossless_priority")
        for netdev, risen in exchange.risen.items():
            stray = risen.get(f"rx_prio{priority}_packets", 0)
            if netdev not in path.ends[1].ports and stray > wire.MESSAGES // 10:
                seen = f"{stray} packets on {path.far.name} {netdev}"
                findings.append(
                    _finding(
                        path,
                        "arrival of its data",
                        seen,
                        "its own rail alone",
                        "fabric_rails",
                        "ethtool -S",
                    )
                )
    settle(findings, marked.unknown)


def test_receiver_keeps_up(marked: Traffic) -> None:
    """A receiver of light traffic discards no packet and sends no pause frame."""
    findings = _failures(marked, "ib_write_bw", "nccl_ib_tc")
    for path, exchange in marked.exchanges:
        priority = path.far.get("fabric_lossless_priority")
        names = (
            f"rx_prio{priority}_discards",
            f"rx_prio{priority}_buf_discard",
            f"tx_prio{priority}_pause",
            "rx_discards_phy",
            "rx_out_of_buffer",
        )
        netdev, risen = ", ".join(path.ends[1].ports), path.risen(exchange.risen)
        for name in names:
            if risen.get(name, 0):
                findings.append(
                    Setting(
                        path.far,
                        f"{netdev} (rail {path.rail.index})",
                        f"{name} during light traffic",
                        "fabric_lossless_priority",
                        where=f"ethtool -S {netdev}, with ib_write_bw from {path.near.name}",
                        look=f"ethtool -S {path.ends[1].ports[0]} | grep -E 'discard|pause'",
                    ).text(risen[name], 0)
                )
    settle(findings, marked.unknown)


def test_rdma_cm_arrives_on_lossless_priority(fleet: Fleet, reached: Reached, hosts: Hosts) -> None:
    """rdma_cm connections arrive on the lossless priority: a driver reload resets their ToS."""

    def commands(path: Path) -> tuple[str, str]:
        return wire.rdma_cm_exchange(*path.ends, path.rail.index, path.far_netdevs)

    _needs_roce(fleet)
    traffic = _exchanged(reached, hosts, commands)
    _judge_priority(traffic, "rping", "roce_qos_tos", wire.MESSAGES // 4)


def _judge_priority(traffic: Traffic, tool: str, variable: str, least: int) -> None:
    findings = _failures(traffic, tool, variable)
    unknown = list(traffic.unknown)
    for path, exchange in traffic.exchanges:
        wanted = path.far.get("fabric_lossless_priority")
        risen = path.risen(exchange.risen)
        counts = {number: risen.get(f"rx_prio{number}_packets") for number in range(8)}
        if exchange.error:
            continue
        if counts[wanted] is None:
            unknown.append(f"{path.to}: ethtool -S shows no rx_prio{wanted}_packets")
            continue
        seen = {number: count for number, count in counts.items() if count and count > least // 10}
        if set(seen) != {wanted} or seen[wanted] < least:
            said = ", ".join(f"{count} on priority {number}" for number, count in seen.items())
            findings.append(
                _finding(
                    path,
                    f"packets of {tool} that arrived",
                    said or "none",
                    f"at least {least} on priority {wanted}, few on others",
                    variable,
                    f"ethtool -S {', '.join(path.ends[1].ports)}",
                )
            )
    settle(findings, unknown)


def _failures(traffic: Traffic, tool: str, variable: str) -> list[str]:
    return [
        _finding(path, tool, exchange.error, "success", variable, tool)
        for path, exchange in traffic.exchanges
        if exchange.error
    ]


def _finding(
    path: Path, setting: str, seen: object, wanted: object, variable: str, where: str
) -> str:
    return Setting(
        path.near,
        path.device,
        f"{setting} to {path.to}",
        variable,
        where=where,
        look=rdmaprov("validate", path.near, path.far) + " -m 'state or links'",
    ).text(seen, wanted)


def _needs_roce(fleet: Fleet) -> None:
    if all(node.get("fabric_kind") != "roce" for node in fleet.nodes):
        not_applicable("fabric_kind: infiniband, where DSCP does not apply")


def reach_all(fleet: Fleet, hosts: Hosts) -> Reached:
    """Return on which paths of the ring something answers."""
    if len(fleet.nodes) < 2:
        not_applicable("only one node is selected; a path needs two")
    paths, unknown = ring.paths(fleet.nodes, hosts)
    if not paths and not unknown:
        not_applicable("no rail has an address on two nodes")
    answers, lost = _ask_near_ends(
        paths, hosts, lambda each: ring.reach_command(_ends(each)), ring.parse_reach
    )
    silent = tuple(path for path, rails in answers if path.rail.index in rails)
    others = tuple(path for path, rails in answers if path.rail.index not in rails)
    return Reached(others, silent, (*unknown, *lost))


def ping_all(reached: Reached, hosts: Hosts) -> Pinged:
    """Return what full-size pings found on every path."""

    def command(each: Sequence[Path]) -> str:
        return ring.ping_command(_ends(each), each[0].near.get("fabric_mtu_bytes"))

    answers, lost = _ask_near_ends(reached.paths, hosts, command, ring.parse_pings)
    found = [(path, *pings[path.rail.index]) for path, pings in answers]
    return Pinged(tuple(found), reached.silent, (*reached.unknown, *lost))


def _ask_near_ends(
    paths: Sequence[Path],
    hosts: Hosts,
    command: Callable[[Sequence[Path]], str],
    parse: Callable[[str], _T],
) -> tuple[list[tuple[Path, _T]], list[str]]:
    """Return what each path's near end says of all of its paths, and a line for unknown nodes."""
    mine = _by_near_end(paths)
    answers = hosts.run(
        {name: command(each) for name, each in mine.items()}, time_limit_s=_TIME_LIMIT_S
    )
    found: list[tuple[Path, _T]] = []
    unknown: list[str] = []
    for name, each in mine.items():
        try:
            said = parse(_stdout(answers[name]))
        except CouldNotTell as error:
            unknown.append(f"{name}: {error.why}")
            continue
        found += [(path, said) for path in each]
    return found, unknown


def _by_near_end(paths: Sequence[Path]) -> dict[str, list[Path]]:
    mine: dict[str, list[Path]] = {}
    for path in paths:
        mine.setdefault(path.near.name, []).append(path)
    return mine


def _ends(paths: Sequence[Path]) -> list[tuple[int, wire.RailEnd, str]]:
    return [(path.rail.index, path.ends[0], path.ends[1].address) for path in paths]


def _exchanged(
    reached: Reached, hosts: Hosts, commands: Callable[[Path], tuple[str, str]]
) -> Traffic:
    """Return the exchanges of all paths; those of a round have no node in common."""
    found = [(path, Exchange(path.lacks, {})) for path in reached.paths if path.lacks]
    for path in reached.silent:
        error = path.lacks or f"not tried, as {path.ends[1].address} does not answer ping"
        found.append((path, Exchange(error, {})))
    lost = list(reached.unknown)
    for each in rounds([path for path in reached.paths if not path.lacks]):
        asked: dict[str, str] = {}
        for path in each:
            asked[path.near.name], asked[path.far.name] = commands(path)
        answers = hosts.run(asked, time_limit_s=_TIME_LIMIT_S)
        for path in each:
            try:
                ends = (_stdout(answers[node.name]) for node in (path.near, path.far))
                found.append((path, wire.parse_exchange(*ends)))
            except CouldNotTell as error:
                lost.append(f"{path.near.name} {path.device} to {path.to}: {error.why}")
    return Traffic(tuple(found), tuple(lost))


def _stdout(answer: object) -> str:
    if isinstance(answer, Exception):
        raise CouldNotTell(f"no answer: {answer}")
    return str(getattr(answer, "stdout", ""))
