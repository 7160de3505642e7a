"""What is at fault, in words and with how sure that is."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from rdmaprov.bandwidth.rates import format_gb_s, format_percent
from rdmaprov.isolation.model import FaultyPart
from rdmaprov.perftest.expected import BAD_SHARE_OF_CEILING
from rdmaprov.perftest.matrix import ACROSS, INSIDE, PathKey, PathMatrix
from rdmaprov.perftest.ports import ends
from rdmaprov.perftest.suspects import BOTH, MOST_BAD, RECEIVING, SENDING, Suspect
from rdmaprov.words import some

COMES_AND_GOES = "comes and goes"
_VERBS = {SENDING: "it sends", RECEIVING: "it receives", BOTH: "it sends and receives"}
# Of a node's rails that are at fault, from how many on the node is named.
_NODE_SHARE = 0.5


def fabric_parts(matrix: PathMatrix, nodes: Sequence[str]) -> list[FaultyPart]:
    """Return what is wrong with all paths alike, which no comparison between them shows."""
    if matrix.ceiling is None or not matrix.samples:
        return []
    kinds = {matrix.kind(path) for path in matrix.samples}
    good = {kind: matrix.good(kind)[0] for kind in sorted(kinds)}
    best = max(good.get(ACROSS, 0.0) / matrix.across, *good.values())
    if best < BAD_SHARE_OF_CEILING:
        why = (
            f"even the best paths reach {format_percent(best)} of what they can carry, and must "
            f"reach {format_percent(BAD_SHARE_OF_CEILING)}"
        )
        return [FaultyPart("fleet", tuple(nodes), True, why)]
    expected = matrix.share * matrix.across
    if INSIDE in good and good.get(ACROSS, best) < expected * good[INSIDE]:
        why = (
            f"paths across leaves reach {format_percent(good[ACROSS] / good[INSIDE])} of what "
            f"paths under one leaf do, whichever the leaves, and must reach "
            f"{format_percent(expected)}"
        )
        return [FaultyPart("fleet", tuple(nodes), True, why)]
    return []


def faulty_part(matrix: PathMatrix, suspect: Suspect, after: int) -> FaultyPart:
    """Return a suspect as a part at fault; sure if rounds after a number show it again."""
    sure = _is_shown_again(matrix, suspect, after)
    why = _why(matrix, suspect)
    if suspect.kind == "pair":
        apart = all(_passes(matrix, port, suspect) for port in ends(suspect.paths[0]))
        sure = sure and apart
        why += "; each passes with others" if apart else "; which of the two is at fault is unknown"
    if not sure and suspect.kind == "pair" and _passed_again(matrix, suspect, after):
        why += ", and they passed when tested again: it comes and goes"
    elif suspect.seen == COMES_AND_GOES or (not sure and suspect.kind in ("rail", "node")):
        why += "; not in all tests: it comes and goes"
    words = [matrix.errors.get(path, "") for path in suspect.paths]
    hang = 2 * words.count("timeout") > len(words)
    return FaultyPart(suspect.kind, suspect.nodes, sure, why, suspect.name, suspect.rail, hang)


def _is_shown_again(matrix: PathMatrix, suspect: Suspect, after: int) -> bool:
    later = matrix.later(suspect.paths, after)
    if not later or suspect.seen == COMES_AND_GOES:
        return False
    if suspect.kind == "fleet" and suspect.rail is None:  # collisions: some paths, never all
        return False
    if suspect.limit:
        return statistics.median(value for _, value in later) < (1 + suspect.limit) / 2
    bad = sum(value < matrix.limit(path) for path, value in later)
    return bad >= MOST_BAD * len(later)


def _passed_again(matrix: PathMatrix, suspect: Suspect, after: int) -> bool:
    return any(v >= matrix.limit(path) for path, v in matrix.later(suspect.paths, after))


def _passes(matrix: PathMatrix, port: tuple[str, int], suspect: Suspect) -> bool:
    """Return whether a port has a good path to somebody else."""
    return any(
        port in ends(path) and path not in suspect.paths and not matrix.is_bad(path)
        for path in matrix.samples
    )


def _why(matrix: PathMatrix, suspect: Suspect) -> str:
    """Return what was seen, of the paths that show it."""
    shown = [p for p in suspect.paths if suspect.limit or matrix.is_bad(p)] or list(suspect.paths)
    share = statistics.median(matrix.value(path) for path in shown)
    reached = f"{format_percent(share)} of what good paths reach"
    is_rate = matrix.measures == "bandwidth"
    if is_rate and share:
        reached += f" ({format_gb_s(statistics.median(matrix.gb_s(path) for path in shown))})"
    if not share:
        words = sorted({matrix.errors.get(path, "") for path in shown} - {""})
        reached = f"nothing ({', '.join(words)})"
    if not is_rate and share:
        reached = f"{1 / share:.2g} times the latency of good paths"
    if suspect.kind in ("rail", "node"):
        verb = _VERBS[suspect.way] if is_rate else "it has"
        return f"{verb} {reached}, with {_partners(shown, suspect.nodes[0])}"
    if suspect.kind == "pair":
        return f"between them: {reached}"
    way = "" if suspect.way == BOTH else f", {suspect.way} only"
    return f"{suspect.seen}: {reached}{way}"


def _partners(paths: Sequence[PathKey], node: str, most: int = 3) -> str:
    """Return the nodes at the other ends, the first ones by name."""
    names = list(dict.fromkeys(p.receiver if p.sender == node else p.sender for p in paths))
    return f"{some(names, most)}, which pass with others"


def merge_rails(parts: Sequence[FaultyPart], rails: Sequence[int]) -> tuple[FaultyPart, ...]:
    """Return parts, with what is at fault on at least half of its rails as one."""
    groups: dict[tuple[str, tuple[str, ...], str], list[FaultyPart]] = defaultdict(list)
    for part in parts:
        groups[part.kind, part.nodes, part.name].append(part)
    found: list[FaultyPart] = []
    for (kind, *_), own in groups.items():
        many = {part.rail for part in own if part.rail is not None}
        if kind == "fleet" or len(many) < 2 or len(many) < _NODE_SHARE * len(rails):
            found += own
            continue
        sure = 2 * sum(part.proven for part in own) > len(own)
        listed = "all rails" if len(many) == len(rails) else f"rails {_numbers(many)}"
        found.append(
            replace(
                own[0],
                kind="node" if kind == "rail" else kind,
                proven=sure,
                why=f"{listed}: {own[0].why}",
                rail=None,
                hang=any(part.hang for part in own),
            )
        )
    return tuple(found)


def _numbers(rails: set[int]) -> str:
    return ", ".join(str(rail) for rail in sorted(rails))
