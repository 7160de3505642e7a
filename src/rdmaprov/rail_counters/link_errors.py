"""Which rails had more errors during a run than a link may have.

No link is free of errors: at 4,096 ports of 400 Gb/s, ten minutes are 10^18 bits, and a bit error
rate of 10^-15 gives about 1,000 errors in a healthy fleet. So errors are judged by the rate that
the links' standards allow, and only what no rate allows is a finding at the first event.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence

from rdmaprov.finding.finding import Finding, apply_remedy
from rdmaprov.node import counter_names
from rdmaprov.node.counter_names import DOWNS, NEVER, ONCE, RATE, SYMBOLS
from rdmaprov.rail_counters import lost_packets as lost_paths
from rdmaprov.rail_counters.lost_packets import DURING
from rdmaprov.rail_counters.traffic import RailTraffic

# Behind error correction: the threshold of ibdiagnet's BER check (its manual v2.21, "Bit Error
# Rate"), and what links with RS(544,514) have to reach (Intel AN 846, 5.3). Rates before it, up to
# 2.4e-4 (fluxlight.com, "Forward Error Correction"), are corrected and show in none of these.
MAX_BER = 1e-12
# How likely a link at the limit may have more than it is allowed: six deviations of a normal
# distribution, so that chance alone accuses one of a billion links. Few errors are not normal: of
# 2,000 healthy fleets, three had a link with two errors where six deviations of the mean allow one.
_CHANCE, _DEVIATIONS = 1e-9, 6
# From this mean on, both agree to one error in a hundred; and exp(-mean) is 0 from 745 on.
_NORMAL = 500
# One may be a cable that was touched; our choice, as no standard names a number.
MAX_RECOVERIES = 1

_NEVER, _ONCE, _HERE = map(counter_names.judged, (NEVER, ONCE, RATE))
RATED = frozenset(_HERE)
_CHECK_LINK = "Check the cable and the switch port, then PFC and ECN on both ends"


@functools.lru_cache(1 << 12)  # the rails of a node carry as many, and are asked for together
def most_errors(bits: float) -> int:
    """Return how many errors a link at its limit may have among these bits.

    Args:
        bits: that the link carried, idle symbols too: they can be wrong as well.
    """
    mean = MAX_BER * bits
    if mean >= _NORMAL:
        return math.floor(mean + _DEVIATIONS * math.sqrt(mean))
    count, term = 0, math.exp(-mean)
    left = -math.expm1(-mean)  # how likely there are more than `count`, by Poisson's distribution
    while left >= _CHANCE:
        count += 1
        term *= mean / count
        left -= term
    return count


def findings(
    rails: Sequence[RailTraffic],
    lossless: int | None = None,
    leaves: Mapping[str, str] | None = None,
    during: str = DURING,
) -> list[Finding]:
    """Return the counters that show more errors than a link may have.

    Args:
        lossless: the priority on which PFC allows no loss at all, None if there is none.
    """
    here = list(local_findings(rails, lossless, during))
    # What a bad link loses, the senders at its other ends count.
    explained = {finding.rail for finding in here}
    open_ones = [each for each in rails if each.rail not in explained and excess(each)]
    lost = lost_paths.findings(open_ones, leaves or {}, during)
    explained |= {each.rail for each in open_ones}
    left = (each for each in rails if each.rail not in explained)
    return [*here, *lost, *lost_paths.ended_connections(left, during)]


def excess(rail: RailTraffic) -> int:
    """Return how many packets that a rail sent were lost, 0 if these are no more than allowed."""
    lost = sum(rail.delta.get(name, 0) for name in lost_paths.COUNTERS)
    most = most_errors(rail.bits)
    return lost if any(rail.delta.get(name, 0) > most for name in lost_paths.COUNTERS) else 0


def local_findings(
    rails: Sequence[RailTraffic], lossless: int | None, during: str = DURING
) -> Iterator[Finding]:
    """Yield what a rail counts of its own link."""
    for each in rails:
        rare = most_errors(each.bits)
        limits = [(_NEVER, 0), (_ONCE, MAX_RECOVERIES), (_HERE, rare)]
        for names, most in limits:
            for name, meaning in names.items():
                if each.delta.get(name, 0) > most:
                    kind = "link.down" if name in DOWNS else "link.errors"
                    kind = "link.symbols" if name in SYMBOLS else kind
                    yield _excess(kind, _CHECK_LINK, each, (name, meaning, most), during)
        yield from _discards(each, lossless, rare, during)


def _excess(
    kind: str, remedy: str, rail: RailTraffic, counted: tuple[str, str, int], during: str
) -> Finding:
    """Return the finding of a counter: its name, what one of it is, and how many there may be."""
    name, meaning, most = counted
    count = rail.delta[name]
    wanted = f"at most {most}" if most else "0"
    rate = f", a rate of {count / rail.bits:.1e} per bit" if most > MAX_RECOVERIES else ""
    what = f"{count} {meaning} {during} ({name}), expected {wanted}{rate}"
    values = {"count": count, "most": most, "bits": rail.bits}
    return Finding(kind, what, remedy, rail.node, rail.rail, part=name, values=values)


def _discards(rail: RailTraffic, lossless: int | None, rare: int, during: str) -> Iterator[Finding]:
    """Yield discards by priority; PFC prevents them on the lossless priority: none is allowed."""
    for name, count in rail.delta.items():
        if name.startswith("ethtool.rx_prio") and "discard" in name:
            is_lossless = lossless is None or name.startswith(f"ethtool.rx_prio{lossless}_")
            most = 0 if is_lossless else rare
            if count > most:
                remedy = apply_remedy("roce_qos", rail.node)
                counted = name, "packets discarded", most
                yield _excess("packets.discarded", remedy, rail, counted, during)
