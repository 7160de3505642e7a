"""The searches: for a bad item, for a bad pair, for a rail."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import combinations, islice

from rdmaprov.isolation.model import (
    Evidence,
    FaultyPart,
    GroupResult,
    GroupTest,
    Item,
    Pool,
    Search,
    TestedParts,
    halves,
    nodes_of,
    run_together,
)
from rdmaprov.isolation.pairs import round_robin

# Rounds of new pairs that are tried when no group at all has passed: all for 16 items. With half of
# many nodes bad, one round has a good pair almost surely.
_MAX_PAIRINGS = 15
_EITHER = "the tests cannot tell which of the two is bad"


def search_items(suspects: Sequence[Item], pool: Pool, evidence: Evidence) -> Search:
    """Find what is at fault in items that together are bad.

    Halves are tested side by side, a single item with a witness. What passes joins the pool; what
    does not is halved again. If all parts pass, the fault is between them.
    """
    if _is_two_leaves(suspects, evidence) and not pool.has():
        yield from search_between(suspects[:1], suspects[1:], evidence)
        return
    parts = [part for part in halves(suspects) if part]
    ready = [part for part in parts if len(part) > 1 or pool.has()]
    tested = yield from _run_tests(ready, pool, evidence)
    late = [part for part in parts if all(part is not done for done, _ in tested)]
    if late and pool.has():
        tested += yield from _run_tests(late, pool, evidence)
    else:
        evidence.stuck += [item for part in late for item in part]
    bad = [(part, answer) for part, answer in tested if answer.bad]
    if not bad and len(tested) == 2:
        yield from search_between(parts[0], parts[1], evidence)
    yield from run_together([_narrow(part, answer, pool, evidence) for part, answer in bad])


def _is_two_leaves(suspects: Sequence[Item], evidence: Evidence) -> bool:
    """Return whether these are the only two leaves; each has passed alone."""
    return len(evidence.leaves) == 2 and set(suspects) == set(evidence.leaves)


def _run_tests(
    parts: Sequence[Sequence[Item]], pool: Pool, evidence: Evidence
) -> Generator[list[GroupTest], list[GroupResult], TestedParts]:
    """Test parts side by side, single items with a witness; return each with its answer."""
    if not parts:
        return []
    answers = yield [GroupTest(nodes_of(part), pool if len(part) == 1 else None) for part in parts]
    tested = list(zip(parts, answers, strict=True))
    for part, answer in tested:
        if len(part) == 2:
            evidence.met[frozenset(part)] = answer
        if not answer.bad:
            pool.add(part)
    return tested


def _narrow(part: Sequence[Item], answer: GroupResult, pool: Pool, evidence: Evidence) -> Search:
    """Narrow a bad part: halve it, or confirm its one item."""
    if len(part) > 1:
        yield from search_items(part, pool, evidence)
    else:
        yield from confirm(part[0], answer, pool, evidence)


def confirm(item: Item, first: GroupResult, pool: Pool, evidence: Evidence) -> Search:
    """Accuse an item that is bad with two witnesses; with one only, the two of them.

    One witness would blame a good item for a path between the two that is bad.
    """
    avoid = frozenset(first.witness)
    if not pool.has(avoid):
        why = "they fail together, and there was no second witness"
        evidence.accuse(FaultyPart("pair", item + first.witness, "low", why, hang=first.hang))
        return
    [second] = yield [GroupTest(item, pool, avoid)]
    if second.bad:
        yield from _accuse(item, first, second, pool, evidence)
    else:
        pool.add([item])
        yield from _accuse_pair(item, first.witness, evidence)


def _item_name(item: Item) -> str:
    return item[0] if len(item) == 1 else f"{item[0]} and {len(item) - 1} more"


def _accuse(
    item: Item, first: GroupResult, second: GroupResult, pool: Pool, evidence: Evidence
) -> Search:
    """Accuse an item that is bad with two witnesses: the leaf, the node, or one rail of it."""
    hung = first.hang or second.hang
    witnesses = f"{_item_name(first.witness)} and {_item_name(second.witness)}"
    why = f"it fails with {witnesses}, which pass without it"
    if item in evidence.leaves and len(item) > 1:
        why, name = f"its nodes pass among themselves; {why}", evidence.leaves[item]
        evidence.accuse(FaultyPart("leaf", item, "high", why, name, hang=hung))
        return
    rail = None
    if evidence.rails > 1:
        rail = yield from find_rail(item, pool, evidence.rails)
    kind = "node" if rail is None else "rail"
    evidence.accuse(FaultyPart(kind, item, "high", why, rail=rail, hang=hung))


def _accuse_pair(one: Item, two: Item, evidence: Evidence) -> Search:
    """Accuse two items, each of which is good with others, if they are bad together again."""
    if len(one) > 1 or len(two) > 1:
        yield from _search_leaves(one, two, evidence)
        return
    [answer] = yield [GroupTest(one + two)]
    if answer.bad:
        sure = evidence.good.issuperset(one + two)
        why = "each passes with other nodes" if sure else _EITHER
        why = f"they fail together, twice; {why}"
        evidence.accuse(
            FaultyPart("pair", one + two, "high" if sure else "low", why, hang=answer.hang)
        )


def _search_leaves(one: Item, two: Item, evidence: Evidence) -> Search:
    """Find out whether two leaves fail together as a whole, or only two nodes of them."""
    left, right = [(node,) for node in one], [(node,) for node in two]
    (first, second), (third, fourth) = halves(left), halves(right)
    if len(left) + len(right) > 2:
        other = (second or first, fourth or third)
        answers = yield [GroupTest(nodes_of(a) + nodes_of(b)) for a, b in ((first, third), other)]
        if all(answer.bad for answer in answers):
            names = " and ".join(evidence.leaves.get(item, _item_name(item)) for item in (one, two))
            why = f"no part of one passes with any part of the other; {_EITHER}"
            hung = any(answer.hang for answer in answers)
            evidence.accuse(FaultyPart("leaf", one + two, "low", why, names, hang=hung))
            return
    yield from search_between(left, right, evidence)


def search_between(left: Sequence[Item], right: Sequence[Item], evidence: Evidence) -> Search:
    """Find the two items, one of each side, that are bad together; each side alone is good.

    Halves of both sides meet, first across and then the other way, and those that are bad are
    halved again: at most two rounds for each halving.
    """
    if len(left) == len(right) == 1:
        yield from _accuse_pair(left[0], right[0], evidence)
        return
    (one, two), (three, four) = halves(left), halves(right)
    for meetings in (((one, three), (two, four)), ((one, four), (two, three))):
        meeting = [(a, b) for a, b in meetings if a and b]
        answers = yield [GroupTest(nodes_of(a) + nodes_of(b)) for a, b in meeting]
        bad = [pair for pair, answer in zip(meeting, answers, strict=True) if answer.bad]
        if bad:
            yield from run_together([search_between(a, b, evidence) for a, b in bad])
            return


def search_pairs(items: Sequence[Item], pool: Pool, evidence: Evidence) -> Search:
    """Find the bad items among those without a witness: new pairs, until one of them passes."""
    for pairs in islice(_new_pairs(items, evidence), _MAX_PAIRINGS):
        if pool.has():
            break
        yield from _run_tests(pairs, pool, evidence)
    rest = [item for item in items if item not in pool]
    if pool.has():
        yield from run_together([_test_with_witness(item, pool, evidence) for item in rest])
        yield from _accuse_bad_pairs(items, pool, evidence)
    else:
        yield from _judge_without_witness(rest, evidence)


def _judge_without_witness(items: Sequence[Item], evidence: Evidence) -> Search:
    """Judge items of which no two passed together: a rail, a pair, or unsure."""
    hung = any(answer.hang for answer in evidence.met.values())
    rail = None
    if evidence.rails > 1:
        rail = yield from find_rail(nodes_of(items), None, evidence.rails)
    if rail is not None:
        why = "nothing passes over this rail, and everything over the others"
        evidence.accuse(FaultyPart("rail", nodes_of(items), "low", why, rail=rail, hang=hung))
    elif len(items) == 2:
        why = f"they fail together; without a third node {_EITHER}"
        evidence.accuse(FaultyPart("pair", nodes_of(items), "low", why, hang=hung))
    elif any(item not in evidence.leaves for item in items):
        evidence.mark_unsure(items)


def _new_pairs(items: Sequence[Item], evidence: Evidence) -> Iterator[list[tuple[Item, Item]]]:
    """Yield rounds of pairs that have not met; of two items only, they meet again."""
    for pairs in round_robin(items):
        new = [pair for pair in pairs if len(items) == 2 or frozenset(pair) not in evidence.met]
        if new:
            yield new


def _test_with_witness(item: Item, pool: Pool, evidence: Evidence) -> Search:
    """Confirm that an item is bad, or clear it; earlier results with witnesses count."""
    met = []
    for other in pool.witnesses():
        answer = evidence.met.get(frozenset((item, other)))
        if answer and answer.bad:
            met.append(GroupResult(bad=True, hang=answer.hang, witness=other))
    if len(met) > 1:
        yield from _accuse(item, met[0], met[1], pool, evidence)
    elif met:
        yield from confirm(item, met[0], pool, evidence)
    else:
        for part, answer in (yield from _run_tests([[item]], pool, evidence)):
            if answer.bad:
                yield from confirm(part[0], answer, pool, evidence)


def _accuse_bad_pairs(items: Sequence[Item], pool: Pool, evidence: Evidence) -> Search:
    """Accuse two items that were bad together and good with others."""
    for one, two in combinations(items, 2):
        answer = evidence.met.get(frozenset((one, two)))
        if answer and answer.bad and one in pool and two in pool:
            yield from _accuse_pair(one, two, evidence)


def find_rail(
    nodes: Item, pool: Pool | None, rails: int
) -> Generator[list[GroupTest], list[GroupResult], int | None]:
    """Return the one rail by which nodes are bad; None if it is none, or more than one."""
    every = tuple(range(rails))
    left: Sequence[int] = every
    while len(left) > 1:
        half, other = halves(left)
        [answer] = yield [GroupTest(nodes, pool, rails=tuple(half))]
        left = half if answer.bad else other
    others = tuple(rail for rail in every if rail != left[0])
    alone, without = yield [
        GroupTest(nodes, pool, rails=(left[0],)),
        GroupTest(nodes, pool, rails=others),
    ]
    return left[0] if alone.bad and not without.bad else None
