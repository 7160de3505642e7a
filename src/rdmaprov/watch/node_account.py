"""One node while it is watched: its answers, added up; gaps, reboots and counters set back."""

import functools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.boundary import OddAnswer
from rdmaprov.inventory import Node
from rdmaprov.probe.errors import NodeError
from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters import lost_packets as lost_paths
from rdmaprov.watch.answers import CounterNames, CounterSteps
from rdmaprov.watch.balance_windows import BalanceWindows
from rdmaprov.watch.columns import Key, column_of, lossless_priority, missing_counters
from rdmaprov.watch.priority_windows import PriorityWindows
from rdmaprov.watch.rail import Column, RailAccount, RailRow
from rdmaprov.watch.thresholds import (
    ERROR_WINDOW_S,
    ERROR_WINDOWS,
    MOST_BYTES_PER_S,
    STOPS_AT,
    WRAP,
    WRAP_FROM,
    WRAP_TO,
)

_DISCARDS = re.compile(r"ethtool\.rx_prio\d_discards")


@functools.cache
def _has_rate(name: str) -> bool:
    """Return whether a link may have some of these errors, by its rate."""
    return (
        name in link_errors.RATED
        or name in lost_paths.COUNTERS
        or _DISCARDS.fullmatch(name) is not None
    )


@dataclass(frozen=True)
class ErrorBurst:
    """More errors than a link may have in some seconds: how many, and in how many."""

    count: int
    seconds: float


class ErrorWindows:
    """The rails of one node.

    Args:
        gbps: line rate of each, 0 if the site does not say it.

    Attributes:
        worst: by counter, the most errors that were beyond what a link may have meanwhile.
    """

    def __init__(self, gbps: Sequence[int]) -> None:
        self.worst: dict[Key, ErrorBurst] = {}
        self._gbps = gbps
        self._length_s = 0.0
        # Where the last windows began: how long each was, and the errors until then.
        self._windows: deque[tuple[float, dict[Key, int]]] = deque(maxlen=ERROR_WINDOWS)
        self._before: dict[Key, int] = {}

    def add(self, totals: Mapping[Key, int], seconds: float) -> None:
        """Take in one answer of the node, which is in the totals already."""
        self._length_s += seconds
        if self._length_s < 0.95 * ERROR_WINDOW_S:
            return
        self._windows.append((self._length_s, self._before))
        length_s = sum(each for each, _ in self._windows)
        for key, count in self._grown(totals):
            known = self.worst.get(key)
            is_more = known is None or count > known.count
            bits = 1e9 * self._gbps[key[0]] * length_s
            if is_more and count > link_errors.most_errors(bits):
                self.worst[key] = ErrorBurst(count, length_s)
        self._before = {key: count for key, count in totals.items() if count and _has_rate(key[1])}
        self._length_s = 0.0

    def _grown(self, totals: Mapping[Key, int]) -> Iterator[tuple[Key, int]]:
        first = self._windows[0][1]
        for key, total in totals.items():
            if total and _has_rate(key[1]) and (grown := total - first.get(key, 0)):
                yield key, grown


@dataclass
class NodeAccount:
    """A node since the watch began."""

    node: Node
    rails: list[RailAccount] = field(default_factory=list)
    devices: tuple[tuple[str, str], ...] = ()
    keys: tuple[Key, ...] = ()
    totals: dict[Key, int] = field(default_factory=dict)
    # what each is at, None for one that could not be read yet
    levels: dict[Key, int | None] = field(default_factory=dict)
    gone: frozenset[Key] = frozenset()
    missing: tuple[str, ...] = ()  # what no counter of it says, in words
    # why nothing is read of a rail, by its number
    unfit: Mapping[int, str] = field(default_factory=dict)
    may_stop: tuple[Key, ...] = ()  # counters that stop at their largest value
    # when counters were seen to be set back, in seconds since the watch began
    resets: list[float] = field(default_factory=list)
    reset_rails: set[int] = field(default_factory=set)
    reboots: list[float] = field(default_factory=list)  # when the node was seen to have rebooted
    # from when to when it did not answer
    gaps: list[tuple[float, float]] = field(default_factory=list)
    lost: NodeError | None = None  # why it does not answer now; None while it does
    cpu_s: float = 0.0  # processor time that reading took on the node
    cpu_over_s: float = 0.0
    answers: int = 0
    log: Sequence[str] = ()  # what its kernel logged meanwhile, which is asked at the end
    log_lacks: str = ""  # what is not known of it
    _with_device: set[int] = field(default_factory=set)
    _boot: str = ""
    _at_s: float = 0.0
    heard_s: float = 0.0  # when the last one came, since the watch began
    _cpu_at_s: float = 0.0

    def __post_init__(self) -> None:
        """Make the rails."""
        self.rails = [RailAccount() for _ in self.node.rails]
        gbps = [self.node.link_gbps(rail) for rail in self.node.rails]
        compute = [rail.use == "compute" for rail in self.node.rails]
        self.balance = BalanceWindows(gbps, compute)
        self.errors = ErrorWindows(gbps)
        self.priorities = PriorityWindows(lossless_priority(self.node), len(self.rails))

    def start(self, names: CounterNames, now_s: float) -> None:
        """Take in what there is; after a gap without a reboot, also what was counted meanwhile.

        Args:
            now_s: since the watch began.
        """
        is_again = bool(self.answers)
        self.keys = names.keys
        self._columns = [(key[0], column_of(key[1])) for key in names.keys]
        if is_again and names.boot and names.boot != self._boot:
            self.reboots.append(now_s)
        elif is_again:
            self._bridge(names, now_s)
        if is_again and self.lost is not None:
            self.gaps.append((self.heard_s, now_s))
        self.lost, self._boot, self.devices = None, names.boot, names.devices
        self.unfit = names.unfit
        self.gone = frozenset(self.totals) - frozenset(names.keys)
        self.levels.update(zip(names.keys, names.counts, strict=True))
        for key in names.keys:
            self.totals.setdefault(key, 0)
        self._with_device = {rail for rail, name in self.totals if name != "down"}
        self.missing = missing_counters(self.node, self.totals)
        self.may_stop = tuple(key for key in names.keys if key[1] in STOPS_AT)
        self._at_s, self.heard_s, self._cpu_at_s = names.at_s, now_s, names.cpu_s
        self.answers += 1

    def _bridge(self, names: CounterNames, now_s: float) -> None:
        """Count what happened while nobody asked, as one long answer."""
        at, by = [], []
        for place, (key, new) in enumerate(zip(names.keys, names.counts, strict=True)):
            old = self.levels.get(key)
            if new is not None and old is not None and new != old and key[1] != "down":
                at.append(place)
                by.append(new - old)
        width = max(now_s - self.heard_s, 1e-3)
        self._take(CounterSteps(0.0, 0.0, at, by, ()), width, now_s)

    def add(self, steps: CounterSteps, now_s: float) -> None:
        """Take in what changed since the answer before.

        Args:
            now_s: since the watch began.

        Raises:
            OddAnswer: its clock did not move, or a rate is beyond what any port can do.
        """
        width = steps.at_s - self._at_s
        if width <= 0:
            raise OddAnswer("its clock does not move")
        self._take(steps, width, now_s)
        self.gone = frozenset(self.keys[place] for place in steps.gone)
        self.cpu_s += max(0.0, steps.cpu_s - self._cpu_at_s)
        self.cpu_over_s += width
        self._at_s, self.heard_s, self._cpu_at_s = steps.at_s, now_s, steps.cpu_s
        self.answers += 1

    def _take(self, steps: CounterSteps, width: float, now_s: float) -> None:
        rows: list[list[int] | None] = [None] * len(self.rails)
        levels, totals = self.levels, self.totals
        for place, by in zip(steps.at, steps.by, strict=True):
            key = self.keys[place]
            level, grown = levels.get(key), by
            if level is None or by < 0:
                grown = self._growth(key, level, by, now_s)
            else:  # nearly always: thousands of them come each second
                levels[key] = level + by
            if not grown:
                continue
            totals[key] += grown
            rail, column = self._columns[place]
            if column is None:
                continue
            row = rows[rail]
            if row is None:
                row = rows[rail] = [0] * len(Column)
            what, unit = column
            if (counted := grown * unit) > row[what]:
                row[what] = counted
        for account, found in zip(self.rails, rows, strict=True):
            if found and max(found[:2]) > MOST_BYTES_PER_S * width:
                raise OddAnswer("a rail counts more bytes than any port can move")
            account.add(RailRow(found, width) if found else RailRow(seconds=width))
        self.balance.add([(each.row.counts[0], each.row.counts[1]) for each in self.rails], width)
        self.priorities.add(self.totals, width)
        self.errors.add(self.totals, width)

    def _growth(self, key: Key, level: int | None, by: int, now_s: float) -> int:
        """Return how much a counter grew that could not be read before, or is less than it was.

        Nothing is known of one that was set back.
        """
        if level is None:
            self.levels[key] = by
            return 0
        self.levels[key] = new = level + by
        if WRAP_FROM <= level < WRAP and 0 <= new < WRAP_TO:
            return by + WRAP
        if not self.resets or self.resets[-1] != now_s:
            self.resets.append(now_s)
        self.reset_rails.add(key[0])
        return 0

    def total(self, rail: int, name: str) -> int:
        """Return how much a counter grew, 0 if there is none."""
        return self.totals.get((rail, name), 0)

    def has_device(self, rail: int) -> bool:
        """Return whether a rail had counters at some time, not only a link that is down."""
        return rail in self._with_device
