"""What is at fault among real nodes: pairs and groups measure side by side and are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rdmaprov.acceptance.live.ranks import Group, LiveRanks, rail_of
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.isolation.compare import BAD_SHARE, GLOO_BAD_SHARE, least_good
from rdmaprov.isolation.locate import FleetSearch, locate
from rdmaprov.isolation.meetings import Pair, disjoint
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.isolation.placement import misplaced, placement_rounds

# With a fault that is there in a third of the time, 16 rounds show it twice with 99 %.
_MOST_GPU_ROUNDS, _AGREE = 16, 2
GpuRates = Mapping[tuple[Group, int], float]


def compare_pairs(live: LiveRanks, site: GateSite, rounds: int) -> list[FaultyPart]:
    """Return what is at fault, by pairs of nodes that measure side by side."""
    share = BAD_SHARE if site.backend == "nccl" else GLOO_BAD_SHARE
    leaf_of = {node.name: node.leaf for node in site.nodes}
    placed = find_misplaced(live, leaf_of)
    apart = {name for part in placed for name in part.nodes}
    by_plane: dict[str, list[FaultyPart]] = {}
    for plane in live.planes():
        names = [n.name for n in site.nodes if n.name not in live.lost and n.name not in apart]

        def test(pairs: Sequence[Pair], plane: str = plane) -> Mapping[Pair, float]:
            reached = live.measure(pairs, plane)
            return {pair: reached[pair] for pair in pairs if pair in reached}

        by_plane[plane] = locate(FleetSearch(names, test, leaf_of, share, rounds, site.is_joined))
    if site.backend == "nccl":
        return placed + name_rails(live, site, next(iter(by_plane.values()), []))
    return placed + merge_planes(by_plane)


def find_misplaced(live: LiveRanks, leaf_of: Mapping[str, str]) -> list[FaultyPart]:
    """Return the nodes that are under another leaf than the site says, by latencies of pairs.

    They come first: where such a node sends, it shares the uplinks of a leaf that is not its own.
    """
    us: dict[Pair, float] = {}
    for pairs in placement_rounds(leaf_of):
        us |= live.measure_latencies(pairs)
    return misplaced(us, leaf_of)


def merge_planes(by_plane: Mapping[str, Sequence[FaultyPart]]) -> list[FaultyPart]:
    """Return the parts that are at fault on every rail, and as their rails those of some."""
    found: dict[tuple[str, tuple[str, ...]], list[tuple[int, FaultyPart]]] = {}
    for number, parts in enumerate(by_plane.values()):
        for part in parts:
            found.setdefault((part.kind, part.nodes), []).append((number, part))
    merged = []
    for same in found.values():
        if len(same) == len(by_plane):
            merged.append(same[0][1])
        else:
            merged += [_on_rail(part, number) for number, part in same]
    return merged


def name_rails(live: LiveRanks, site: GateSite, parts: Sequence[FaultyPart]) -> list[FaultyPart]:
    """Return parts, with the rail of nodes that are slow by one rail only.

    Each GPU of such a node measures with the same one of a good node; NCCL takes the rail next to
    it. Of a node whose fault comes and goes, the rounds that show it count.
    """
    slow = [part.nodes[0] for part in parts if part.kind == "node" and not part.hang]
    accused = {name for part in parts for name in part.nodes}
    good = [n.name for n in site.nodes if n.name not in accused and n.name not in live.lost]
    pairs = disjoint(zip(slow, good, strict=False), set())
    pairs += disjoint(zip(good[len(pairs) :: 2], good[len(pairs) + 1 :: 2], strict=False), set())
    nodes = {node.name: node for node in site.nodes}
    if not slow or not pairs or len(nodes[pairs[0][0]].compute_rails) < 2:
        return list(parts)
    at_times = {part.nodes[0] for part in parts if part.comes_and_goes}
    rounds = [live.measure_gpus(pairs), live.measure_gpus(pairs)]
    while len(rounds) < _MOST_GPU_ROUNDS and any(
        len(_slow_at_times(rounds, pair)) < _AGREE for pair in pairs if pair[0] in at_times
    ):
        rounds.append(live.measure_gpus(pairs))
    rails: dict[str, int] = {}
    for pair in pairs[: len(slow)]:
        seen = _slow_at_times(rounds, pair) if pair[0] in at_times else [_slow(rounds[:2], pair)]
        bad = {rail_of(nodes[pair[0]], gpu, site.per_node) for gpus in seen for gpu in gpus}
        if len(bad) == 1 and (rail := bad.pop()) is not None:
            rails[pair[0]] = rail
    return _join_leaves([_with_rail(part, rails) for part in parts], site)


def _join_leaves(parts: Sequence[FaultyPart], site: GateSite) -> list[FaultyPart]:
    """Return parts, with leaves in place of one rail of all of their nodes: it has one switch."""
    leaves: dict[str, list[str]] = {}
    for node in site.nodes:
        leaves.setdefault(node.leaf, []).append(node.name)
    found = list(parts)
    for leaf, nodes in leaves.items():
        own = [part for part in found if part.kind == "rail" and part.nodes[0] in nodes]
        rails = {part.rail for part in own}
        if leaf and 1 < len(nodes) == len(own) < len(site.nodes) and len(rails) == 1:
            why = f"all {len(own)} of its nodes are slow by this rail alone: its switch, or each"
            joined = FaultyPart("leaf", tuple(nodes), False, why, leaf, rails.pop())
            found = [part for part in found if part not in own] + [joined]
    return found


def _slow(rounds: Sequence[GpuRates], pair: Pair) -> set[int]:
    """Return the GPUs of a pair that are slow in each of some rounds."""
    best: dict[tuple[Group, int], float] = {}
    for rates in rounds:
        best.update({key: max(rate, best.get(key, 0.0)) for key, rate in rates.items()})
    least = least_good(best.values())
    return {gpu for (group, gpu), rate in best.items() if group == pair and rate < least}


def _slow_at_times(rounds: Sequence[GpuRates], pair: Pair) -> list[set[int]]:
    """Return the GPUs of a pair that are slow in a round, for each round with one."""
    return [gpus for each in rounds if (gpus := _slow([each], pair))]


def _with_rail(part: FaultyPart, rails: Mapping[str, int]) -> FaultyPart:
    if part.kind != "node" or part.nodes[0] not in rails:
        return part
    why = f"{part.why}; only the GPUs next to this rail are slow"
    return _on_rail(replace(part, why=why), rails[part.nodes[0]])


def _on_rail(part: FaultyPart, rail: int) -> FaultyPart:
    return replace(part, kind="rail" if part.kind == "node" else part.kind, rail=rail)
