"""Tunables of a network device's driver, which only `ethtool --get-tunable` shows."""

import re
import shlex

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Output, run_program

PFC_TIMEOUT = "pfc-prevention-tout"
# ethtool.c, do_gtunable, has these words for every error, above all for a driver without the
# tunable (EOPNOTSUPP); an ethtool that does not know it says that its arguments are bad.
_NOT_SHOWN = ("Cannot get tunable", "bad command line argument")


def pfc_timeout_ms(host: Host, netdev: str) -> int | None:
    """Return after how long a stalled port stops sending PFC; 0 for never, None if it is not shown.

    65535 is the driver's own choice, on mlx5 100 ms: Linux include/uapi/linux/ethtool.h,
    drivers/net/ethernet/mellanox/mlx5/core/en_ethtool.c.
    """
    command = pfc_timeout_command(netdev)
    return parse_pfc_timeout(run_program(host, command), command)


def pfc_timeout_command(netdev: str) -> str:
    """Return what to type to see it."""
    return f"ethtool --get-tunable {shlex.quote(netdev)} {PFC_TIMEOUT}"


def parse_pfc_timeout(done: Output, command: str) -> int | None:
    """Return what ethtool printed, as `pfc_timeout_ms` does."""
    found = re.fullmatch(rf"{PFC_TIMEOUT}: ([0-9]{{1,5}})", done.stdout.strip())
    if done.rc == 0 and found:
        return int(found[1])
    if done.rc != 0 and any(words in done.stderr for words in _NOT_SHOWN):
        return None
    raise CouldNotTell(f"{command}: {done.stdout.strip()[:60]!r}, exit code {done.rc}: {done.last}")
