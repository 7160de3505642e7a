"""Ports that explain bad paths, and paths that only their two ends explain."""

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Sequence

from rdmaprov.isolation.compare import least_good
from rdmaprov.isolation.meetings import pair_key
from rdmaprov.perftest.matrix import PathKey
from rdmaprov.perftest.suspects import BOTH, MOST_BAD, RECEIVING, SENDING, Evidence, Suspect

# A port is named if it fails with two others or more, and if less than one good port in a hundred
# fleets would look as bad by chance.
_PARTNERS, _MOST_CHANCE = 2, 0.01
_ALL_RAILS = -1
_Port = tuple[str, int]
_Group = tuple[str, int, str, str]  # node, rail, way, kind of paths or "" for all


def port_suspects(evidence: Evidence) -> list[Suspect]:
    """Return nodes that are slow with most others on all rails, then ports that are.

    Of both, the worst come first, and then those that are a little slow.
    """
    many = len({path.rail for path in evidence.value}) > 1
    nodes = _bad_ports(evidence, whole=True) if many else []
    ports = _bad_ports(evidence)
    if many:
        nodes += _mild_ports(evidence, whole=True)
    return [*nodes, *ports, *_mild_ports(evidence)]


def _bad_ports(evidence: Evidence, whole: bool = False) -> list[Suspect]:
    if not evidence.bad:
        return []
    groups = _groups(evidence, only_bad=True, whole=whole)
    usual = _Usual(evidence, whole)
    queue = [(*_order(evidence, paths), key) for key, paths in groups.items()]
    heapq.heapify(queue)
    found = []
    while queue:
        *order, key = heapq.heappop(queue)
        paths = groups[key]
        now = _order(evidence, paths)
        if now != tuple(order):  # something else explains part of it by now
            heapq.heappush(queue, (*now, key))
        elif _is_port(evidence, key, paths, usual, evidence.bad):
            found.append(_suspect(key, [path for path in paths if path in evidence.value]))
            # Also what it has with few others, or of another kind: one cause is enough.
            evidence.explain(groups[key[0], key[1], key[2], ""])
    return found


def _order(evidence: Evidence, paths: Sequence[PathKey]) -> tuple[int, float]:
    """Return by what the worst port comes first: its bad paths, then their share."""
    bad = sum(path in evidence.bad for path in paths)
    return -bad, -evidence.share_bad(paths)


def _is_port(
    evidence: Evidence,
    key: _Group,
    paths: Sequence[PathKey],
    usual: "_Usual",
    slow: Collection[PathKey],
) -> bool:
    """Return whether most paths of a port are among the slow ones, and not by chance."""
    there = [path for path in paths if path in evidence.value]
    if sum(path in slow for path in there) < MOST_BAD * len(there):
        return False
    met: dict[str, bool] = {}
    for path in there:
        other = _other(path, key[0])
        met[other] = met.get(other, False) or path in slow
    bad = sum(met.values())
    return bad >= _PARTNERS and not usual.is_chance(key[:2], len(met), bad)


def _mild_ports(evidence: Evidence, whole: bool = False) -> list[Suspect]:
    """Return ports whose paths are a little slower, each within its noise and together not."""
    groups = {key: paths for key, paths in _groups(evidence, whole=whole).items() if not key[3]}
    found: dict[_Port, Suspect] = {}
    for way in (BOTH, SENDING, RECEIVING):
        own = {key: evidence.median(paths) for key, paths in groups.items() if key[2] == way}
        limit = least_good(own.values(), evidence.matrix.mild_share)
        low = [key for key, median in own.items() if median < limit]
        if not low:
            continue
        slow = {path for path, value in evidence.value.items() if value < limit}
        usual = _Usual(evidence, whole, slow)
        for key in low:
            if _is_port(evidence, key, groups[key], usual, slow):
                found.setdefault(key[:2], _suspect(key, groups[key], limit))
    for suspect in found.values():
        evidence.explain(suspect.paths)
    return list(found.values())


def odd_pairs(evidence: Evidence) -> list[Suspect]:
    """Return what explains the bad paths that are left: ports that come and go, single paths."""
    if not evidence.bad:
        return []
    partners: dict[_Port, dict[str, list[PathKey]]] = defaultdict(lambda: defaultdict(list))
    for path in evidence.bad:
        for end in ends(path):
            partners[end][_other(path, end[0])].append(path)
    usual = _Usual(evidence)
    met: dict[_Port, set[str]] = defaultdict(set)
    for path in evidence.value:
        for end in ends(path):
            met[end].add(_other(path, end[0]))
    found = []
    for end, own in sorted(partners.items(), key=lambda item: -len(item[1])):
        bad = {other: [p for p in paths if p in evidence.bad] for other, paths in own.items()}
        bad = {other: paths for other, paths in bad.items() if paths}
        if len(bad) >= _PARTNERS and not usual.is_chance(end, len(met[end]), len(bad)):
            paths = tuple(path for each in bad.values() for path in each)
            found.append(Suspect("rail", (end[0],), end[1], paths, seen="comes and goes"))
            evidence.explain(paths)
    pairs: dict[tuple[tuple[str, str], int], list[PathKey]] = defaultdict(list)
    for path in sorted(evidence.bad):
        pairs[pair_key(path.sender, path.receiver), path.rail].append(path)
    return [*found, *(Suspect("pair", pair, r, tuple(own)) for (pair, r), own in pairs.items())]


def ends(path: PathKey) -> tuple[_Port, _Port]:
    """Return the two ports of a path."""
    return (path.sender, path.rail), (path.receiver, path.into)


class _Usual:
    """How many paths are bad at ports that are not mostly bad: colliding flows slow any two."""

    def __init__(
        self, evidence: Evidence, whole: bool = False, slow: Collection[PathKey] | None = None
    ) -> None:
        bad = evidence.bad if slow is None else slow
        own: dict[_Port, list[PathKey]] = defaultdict(list)
        for path in evidence.value:
            for end in _parts(path, whole):
                own[end].append(path)
        apart = {
            end
            for end, paths in own.items()
            if sum(path in bad for path in paths) >= MOST_BAD * len(paths)
        }
        self.ports = len(own)
        self._own = {end: paths for end, paths in own.items() if end not in apart}
        self._bad = {path for path in bad if apart.isdisjoint(_parts(path, whole))}
        self._all = sum(apart.isdisjoint(_parts(path, whole)) for path in evidence.value)

    def share(self, port: _Port) -> float:
        """Return the share of bad paths, without those of one port."""
        own = self._own.get(port, ())
        bad = len(self._bad) - sum(path in self._bad for path in own)
        return bad / max(1, self._all - len(own))

    def is_chance(self, port: _Port, count: int, bad: int) -> bool:
        """Return whether a good port of some fleet may fail with as many of those it met."""
        usual = self.share(port)
        likely = sum(
            math.comb(count, times) * usual**times * (1 - usual) ** (count - times)
            for times in range(bad, count + 1)
        )
        return self.ports * likely >= _MOST_CHANCE


def _parts(path: PathKey, whole: bool) -> tuple[_Port, _Port]:
    """Return the two ports of a path, or its two nodes as ports of no rail."""
    if whole:
        return (path.sender, _ALL_RAILS), (path.receiver, _ALL_RAILS)
    return ends(path)


def _groups(
    evidence: Evidence, only_bad: bool = False, whole: bool = False
) -> dict[_Group, list[PathKey]]:
    """Return the paths of each port, by way and kind."""
    wanted = {p for path in evidence.bad for p in _parts(path, whole)} if only_bad else None
    found: dict[_Group, list[PathKey]] = defaultdict(list)
    for path in evidence.value:
        kind = evidence.matrix.kind(path)
        for end, way in zip(_parts(path, whole), (SENDING, RECEIVING), strict=True):
            if wanted is None or end in wanted:
                for each in (way, BOTH):
                    found[(*end, each, "")].append(path)
                    found[(*end, each, kind)].append(path)
    return found


def _suspect(key: _Group, paths: Sequence[PathKey], limit: float = 0.0) -> Suspect:
    node, rail, way, kind = key
    if rail == _ALL_RAILS:
        return Suspect("node", (node,), None, tuple(paths), way, limit=limit, seen=kind)
    return Suspect("rail", (node,), rail, tuple(paths), way, limit=limit, seen=kind)


def _other(path: PathKey, node: str) -> str:
    return path.receiver if path.sender == node else path.sender
