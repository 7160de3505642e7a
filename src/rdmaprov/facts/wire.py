"""Traffic between two nodes on one rail, and what the receiver's ports counted meanwhile.

Each exchange is one command on each of the two nodes, run at the same time. What a server prints
is of no interest but its counters; the client tries again until the server listens.

The tools agree on their queue pairs over TCP. ibv_rc_pingpong listens at IPv4 alone, and perftest
4.5 of Debian 12 knows no IPv6 there: over IPv6 rails a relay at each end carries what they say.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.text import END, node_command, whole

# Enough that what else is on the wire (ARP, the tools' own TCP connection) is small beside it.
MESSAGES, MESSAGE_BYTES = 1000, 1024
SERVER_S = 30
# perftest's and the ping-pong's own ports are 18515 and later; each rail has one.
_PORT = 18700
_LOOPBACK = "127.0.0.1"
_ABSENT, _INSTALL = "@absent ", "apt-get install ibverbs-utils rdmacm-utils perftest"
_SAYS_WHY = re.compile(r"\s*(?!(local|remote) address:)\S")
_COUNTED = (
    "^ +(rx_prio[0-7]_(packets|discards|buf_discard)|tx_prio[0-7]_pause"
    "|rx_discards_phy|rx_out_of_buffer):"
)


@dataclass(frozen=True)
class RailEnd:
    """One end of a rail between two nodes."""

    netdev: str
    rdma: str
    mac: str
    address: str
    # of the GID that NCCL would use; None if there is none, or on InfiniBand, where none is needed
    gid_index: int | None
    ports: tuple[str, ...]


@dataclass(frozen=True)
class Exchange:
    """What came of one exchange."""

    error: str  # the client's last line if it failed, else empty
    # by the receiver's network device and counter, by how much it rose
    risen: Mapping[str, Mapping[str, int]]


def pingpong(near: RailEnd, far: RailEnd, rail: int, mtu_bytes: int) -> tuple[str, str]:
    """Return the client's and the server's command of a verbs ping-pong.

    Not rping: rdma_cm forgives what NCCL does not.

    Args:
        mtu_bytes: RDMA MTU.
    """
    options = f"-p {_PORT + rail} -m {mtu_bytes} -s {MESSAGE_BYTES} -n 100"
    words = ["ibv_rc_pingpong -d {} {} " + options] * 2
    client, server = (
        word.format(shlex.quote(end.rdma), "" if end.gid_index is None else f"-g {end.gid_index}")
        for word, end in zip(words, (near, far), strict=True)
    )
    return _exchange(client, server, far, rail, [])


def rdma_writes(
    near: RailEnd,
    far: RailEnd,
    rail: int,
    mtu_bytes: int,
    traffic_class: int,
    netdevs: Sequence[str],
) -> tuple[str, str]:
    """Return the client's and the server's command of RDMA writes with a traffic class.

    Args:
        netdevs: network devices of the receiver's rails, whose counters are read.
    """
    common = f"-p {_PORT + rail} -m {mtu_bytes} -s {MESSAGE_BYTES} -n {MESSAGES} -F"
    words = f"--tclass={traffic_class} {common}"
    client = f"ib_write_bw -d {shlex.quote(near.rdma)} -x {near.gid_index} {words}"
    server = f"ib_write_bw -d {shlex.quote(far.rdma)} -x {far.gid_index} {words}"
    return _exchange(client, server, far, rail, netdevs)


def rdma_cm_exchange(
    near: RailEnd, far: RailEnd, rail: int, netdevs: Sequence[str]
) -> tuple[str, str]:
    """Return the client's and the server's command of an exchange by rdma_cm, with its own ToS."""
    words = f"-p {_PORT + rail} -C {MESSAGES // 4} -S {MESSAGE_BYTES}"
    client = f"rping -c -I {shlex.quote(near.address)} -a {shlex.quote(far.address)} {words}"
    server = f"rping -s -a {shlex.quote(far.address)} {words}"
    return client_command(client), server_command(server, netdevs)


def _exchange(
    client: str, server: str, far: RailEnd, rail: int, netdevs: Sequence[str]
) -> tuple[str, str]:
    """Return both commands, of a client that lacks the server's address, and a server."""
    if ":" not in far.address:
        address = shlex.quote(far.address)
        return client_command(f"{client} {address}"), server_command(server, netdevs)
    return (
        _with_relay(_LOOPBACK, far.address, rail, client_command(f"{client} {_LOOPBACK}")),
        _with_relay(far.address, _LOOPBACK, rail, server_command(server, netdevs)),
    )


def _with_relay(listen: str, to: str, rail: int, command: str) -> str:
    relay = node_command("relay.py", listen, str(_PORT + rail), to)
    return (
        f"timeout {2 * SERVER_S} {relay} < /dev/null > /dev/null 2>&1 & relay=$!; {command}; "
        "kill $relay 2> /dev/null || :"
    )


def client_command(command: str) -> str:
    """Return a command that tries as long as a server may listen, and prints how that ended."""
    return (
        f"end=$(($(date +%s) + {SERVER_S})); while :; do "
        f"said=$(LC_ALL=C timeout {SERVER_S} {command} 2>&1); rc=$?; "
        '[ "$rc" -ne 0 ] && [ "$rc" -ne 127 ] && [ "$(date +%s)" -lt "$end" ] || break; '
        "sleep 0.3; done; "
        f'echo "rc $rc"; echo "$said" | tail -n 3; echo {END}'
    )


def server_command(command: str, netdevs: Sequence[str]) -> str:
    """Return a command that serves once, with the counters before and after."""
    names = " ".join(map(shlex.quote, netdevs))
    read = (
        f'for d in {names}; do echo "== $d"; ethtool -S "$d" 2>&1 '
        f"| grep -aE {shlex.quote(_COUNTED)}; done"
    )
    counters = f"echo {{}}; {read}; " if netdevs else "echo {}; "
    return (
        counters.format("@before")
        + f"timeout {SERVER_S} {command} > /dev/null 2>&1 || [ $? -ne 127 ] || "
        + f"echo {_ABSENT}{shlex.quote(command.partition(' ')[0])}; "
        + counters.format("@after")
        + f"echo {END}"
    )


def parse_exchange(client: str, server: str) -> Exchange:
    """Return what the two commands of an exchange printed."""
    said = whole(client, "the client of an exchange").splitlines()
    found = re.fullmatch(r"rc (\d+)", said[0]) if said else None
    if found is None:
        raise CouldNotTell(f"the client of the test traffic printed {client[:60]!r}")
    # What the ping-pong writes of itself comes after its error, as that is not buffered.
    last = next(
        (line.strip() for line in reversed(said[1:]) if _SAYS_WHY.match(line)), "no message"
    )
    if found[1] == "127":
        raise CouldNotTell(f"{last}", _INSTALL)
    before, mark, after = whole(server, "the server").partition("@after\n")
    if not mark:
        raise CouldNotTell("the server of the test traffic did not finish")
    if absent := re.search(rf"(?m)^{_ABSENT}(\S+)$", before):
        raise CouldNotTell(f"the receiver has no {absent[1]}", _INSTALL)
    first, second = _counters(before), _counters(after)
    risen = {
        netdev: {name: value - first.get(netdev, {}).get(name, 0) for name, value in each.items()}
        for netdev, each in second.items()
    }
    return Exchange("" if found[1] == "0" else f"{last} (exit code {found[1]})", risen)


def _counters(text: str) -> dict[str, dict[str, int]]:
    parts = re.split(r"(?m)^== (\S+)\n", text)
    return {
        netdev: {name: int(n) for name, n in re.findall(r"(?m)^\s+(\w+): (\d+)$", body)}
        for netdev, body in zip(parts[1::2], parts[2::2], strict=True)
    }
