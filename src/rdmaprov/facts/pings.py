"""Whether the far ends of rails answer at all, and a ping of full size on each rail."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.text import END, whole
from rdmaprov.facts.wire import RailEnd

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
    """Return the command that finds rails on which nothing answers, with a few small packets.

    Args:
        ends: as ping_command() takes them.
    """
    # 1: no answer; 2: no way to send. A ping that is not installed says nothing.
    return _all_at_once(
        [
            f"ping -q -c 3 -i 0.3 -W {REACH_S} -I {shlex.quote(near.address)} {shlex.quote(far)} "
            f"> /dev/null 2>&1; case $? in 1|2) echo 'silent {number}';; esac"
            for number, near, far in ends
        ]
    )


def parse_reach(stdout: str) -> set[int]:
    """Return the rails on which nothing answers.

    Raises:
        CouldNotTell: the output is truncated.
    """
    return {int(number) for number in re.findall(r"(?m)^silent (\d+)$", whole(stdout, "ping"))}


def parse_pings(stdout: str) -> dict[int, tuple[Ping, str]]:
    """Return by rail what its ping found, and the far end's MAC address; empty if it has none.

    Raises:
        CouldNotTell: the output is truncated, or ping did not run.
    """
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
