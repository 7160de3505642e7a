"""What bad paths have in common: a switch plane, a leaf, a port, or only their two ends.

The broadest part that explains its paths comes first, and takes them with it: the receivers of a
bad sender are its victims, and what is left of their paths is good.
"""

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.isolation.compare import least_good
from rdmaprov.perftest.matrix import PathKey, PathMatrix

# Of a part's paths, how many must be bad. A part at fault spoils all of them; a good one that meets
# a bad one of three others, one in three. Between these, our choice.
MOST_BAD = 0.75
_LEAST_FOR_MEDIAN = 5
# Two nodes of a leaf are no leaf.
LEAST_OF_LEAF = 3
BOTH, SENDING, RECEIVING = "both ways", "sending", "receiving"
_WAYS = (BOTH, SENDING, RECEIVING)
_INSIDE = "inside"
_Leaves = dict[tuple[str, int], dict[str, list[PathKey]]]


@dataclass(frozen=True)
class Suspect:
    """A part that would explain bad paths."""

    kind: str  # `fleet` (with a rail: the switches of that rail), `leaf`, `node`, `rail`, or `pair`
    nodes: tuple[str, ...]
    rail: int | None  # its number; None if it is not of one
    paths: tuple[PathKey, ...]
    way: str = BOTH  # `both ways`, `sending` or `receiving`
    name: str = ""  # a leaf's, or two leaves' names
    # the share of good paths below which their median shows it; 0: each is bad by itself
    limit: float = 0.0
    seen: str = ""  # the part in words, such as `its uplinks`


class Evidence:
    """The paths of a matrix that nothing explains yet.

    Attributes:
        value: what each path reached, as a share of good ones.
        bad: the paths that are bad by themselves.
    """

    def __init__(self, matrix: PathMatrix) -> None:
        self.matrix = matrix
        self.value: dict[PathKey, float] = {path: matrix.value(path) for path in matrix.samples}
        self.bad = {path for path, value in self.value.items() if value < matrix.limit(path)}

    def explain(self, paths: Iterable[PathKey]) -> None:
        """Leave out paths: something is found that explains them."""
        for path in paths:
            self.value.pop(path, None)
            self.bad.discard(path)

    def share_bad(self, paths: Collection[PathKey]) -> float:
        """Return the share of some open paths that are bad; 0 of none."""
        there = [path for path in paths if path in self.value]
        return sum(path in self.bad for path in there) / len(there) if there else 0.0

    def median(self, paths: Iterable[PathKey]) -> float:
        """Return the median of open paths; 1 of too few."""
        values = [self.value[path] for path in paths if path in self.value]
        return statistics.median(values) if len(values) >= _LEAST_FOR_MEDIAN else 1.0


def plane_suspects(evidence: Evidence) -> list[Suspect]:
    """Return rails that are slow at most nodes: their switches have that in common."""
    by_rail: dict[int, list[PathKey]] = defaultdict(list)
    for path in evidence.value:
        by_rail[path.rail].append(path)
    found = []
    for rail, paths in sorted(by_rail.items()):
        nodes = _nodes(paths)
        if len(nodes) >= LEAST_OF_LEAF and evidence.share_bad(paths) >= MOST_BAD:
            seen = f"rail {rail} between all nodes"
            found.append(Suspect("fleet", nodes, rail, tuple(paths), seen=seen))
    return _unless_most(found, len(by_rail), evidence)


def leaf_suspects(evidence: Evidence) -> list[Suspect]:
    """Return leaves that are slow on a rail, with other leaves or also inside; the worst first."""
    leaf_of = evidence.matrix.leaf_of
    groups: _Leaves = defaultdict(lambda: defaultdict(list))
    for path in evidence.value:
        up, down = leaf_of.get(path.sender, ""), leaf_of.get(path.receiver, "")
        if up and up == down:
            groups[up, path.rail][_INSIDE].append(path)
        elif up and down:
            for key, way in (((up, path.rail), SENDING), ((down, path.into), RECEIVING)):
                groups[key][way].append(path)
                groups[key][BOTH].append(path)
    if len({leaf for leaf, _ in groups}) < LEAST_OF_LEAF:
        return []
    limits = {
        way: least_good(
            [evidence.median(own[way]) for own in groups.values()], evidence.matrix.mild_share
        )
        for way in _WAYS
    }
    tried = [_leaf_suspect(evidence, key, own, limits) for key, own in groups.items()]
    slow = [each for each in tried if each is not None]
    found: list[Suspect] = []
    while slow and 2 * len(found) <= len(groups):
        worst = min(slow, key=lambda each: evidence.median(each.paths))
        found.append(worst)
        evidence.explain(worst.paths)
        # What met a bad leaf may be as good as others with those that are left.
        tried = [
            _leaf_suspect(evidence, (s.name, s.rail or 0), groups[s.name, s.rail or 0], limits)
            for s in slow
            if s is not worst
        ]
        slow = [each for each in tried if each is not None]
    return found


def _leaf_suspect(
    evidence: Evidence,
    key: tuple[str, int],
    own: Mapping[str, Sequence[PathKey]],
    limits: Mapping[str, float],
) -> Suspect | None:
    """Return a leaf's rail as a suspect, by the widest way in which it is slow; else None."""
    leaf, rail = key
    leaf_of = evidence.matrix.leaf_of
    for way in _WAYS:
        open_paths = [path for path in own[way] if path in evidence.value]
        limit = _leaf_limit(evidence, leaf, open_paths, limits[way])
        if limit is None:
            continue
        inside = [path for path in own[_INSIDE] if path in evidence.value]
        slow = evidence.median(inside) < limit if limit else evidence.share_bad(inside) >= MOST_BAD
        paths = (*open_paths, *(inside if slow else ()))
        nodes = tuple(sorted(n for n in _nodes(paths) if leaf_of.get(n) == leaf))
        seen = "all of its paths" if slow else "its paths to and from other leaves"
        return Suspect("leaf", nodes, rail, paths, way, leaf, limit, seen)
    return None


def _leaf_limit(
    evidence: Evidence, leaf: str, paths: Sequence[PathKey], mild: float
) -> float | None:
    """Return by which limit a leaf is slow, 0 if each path is; None if it is not."""
    leaf_of = evidence.matrix.leaf_of
    own: dict[str, list[PathKey]] = defaultdict(list)
    others: set[str] = set()
    for path in paths:
        node = path.sender if leaf_of.get(path.sender) == leaf else path.receiver
        own[node].append(path)
        others.add(leaf_of[path.receiver if node == path.sender else path.sender])
    if len(own) < LEAST_OF_LEAF or len(others) < 2:
        return None
    bad = sum(evidence.share_bad(each) >= MOST_BAD for each in own.values())
    if bad >= MOST_BAD * len(own):
        return 0.0
    # A leaf that is a little slower is so on nearly all paths; colliding flows spare some.
    slow = sum(evidence.value[path] < mild for path in paths)
    return mild if slow >= MOST_BAD * len(paths) and len(paths) >= _LEAST_FOR_MEDIAN else None


def leaf_pair_suspects(evidence: Evidence) -> list[Suspect]:
    """Return pairs of leaves between which paths of a rail are bad, each good with others."""
    leaf_of = evidence.matrix.leaf_of
    groups: dict[tuple[str, str, int], list[PathKey]] = defaultdict(list)
    for path in evidence.value:
        one, other = sorted((leaf_of.get(path.sender, ""), leaf_of.get(path.receiver, "")))
        if one and one != other:
            groups[one, other, path.rail].append(path)
    found = []
    for (one, other, rail), paths in groups.items():
        bad = _nodes(path for path in paths if path in evidence.bad)
        sides = [sum(leaf_of[node] == leaf for node in bad) for leaf in (one, other)]
        if min(sides) >= LEAST_OF_LEAF and evidence.share_bad(paths) >= MOST_BAD:
            seen = "paths between the two, and not those to others"
            name = f"{one} and {other}"
            found.append(Suspect("leaf", _nodes(paths), rail, tuple(paths), BOTH, name, seen=seen))
    return _unless_most(found, len(groups), evidence)


def _unless_most(found: list[Suspect], of: int, evidence: Evidence) -> list[Suspect]:
    """Return suspects and explain their paths; none if they are most of their kind."""
    if 2 * len(found) > of and of > 1:
        return []
    for suspect in found:
        evidence.explain(suspect.paths)
    return found


def _nodes(paths: Iterable[PathKey]) -> tuple[str, ...]:
    return tuple(sorted({node for path in paths for node in (path.sender, path.receiver)}))
