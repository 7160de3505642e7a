"""The searches: for a bad item, for two that do not get along, for a rail."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import combinations, islice

from rdmaprov.isolation.pairs import round_robin
from rdmaprov.isolation.search import (
    Answer,
    Ask,
    Culprit,
    Findings,
    Item,
    Pool,
    Search,
    Tested,
    halves,
    joined,
    together,
)

# Rounds of new pairs that are tried when no group at all has passed: all for 16 items. With half of
# many nodes bad, one round has a good pair almost surely.
_MOST_PAIRINGS = 15


def hunt(suspects: Sequence[Item], pool: Pool, findings: Findings) -> Search:
    """Find what is at fault in items that together are bad.

    Halves are tested side by side, a single item with a witness. What passes joins the pool; what
    does not is halved again. If all parts pass, the fault is between them.
    """
    if _two_leaves(suspects, findings) and not pool.has():
        yield from between(suspects[:1], suspects[1:], findings)
        return
    parts = [part for part in halves(suspects) if part]
    ready = [part for part in parts if len(part) > 1 or pool.has()]
    tested = yield from _test(ready, pool, findings)
    late = [part for part in parts if all(part is not done for done, _ in tested)]
    if late and pool.has():
        tested += yield from _test(late, pool, findings)
    else:
        findings.stuck += [item for part in late for item in part]
    bad = [(part, answer) for part, answer in tested if answer.bad]
    if not bad and len(tested) == 2:
        yield from between(parts[0], parts[1], findings)
    yield from together([_narrow(part, answer, pool, findings) for part, answer in bad])


def _two_leaves(suspects: Sequence[Item], findings: Findings) -> bool:
    """Return whether these are the only two leaves; each has passed alone."""
    return len(findings.leaves) == 2 and set(suspects) == set(findings.leaves)


def _test(
    parts: Sequence[Sequence[Item]], pool: Pool, findings: Findings
) -> Generator[list[Ask], list[Answer], Tested]:
    """Test parts side by side, single items with a witness; return each with its answer."""
    if not parts:
        return []
    answers = yield [Ask(joined(part), pool if len(part) == 1 else None) for part in parts]
    tested = list(zip(parts, answers, strict=True))
    for part, answer in tested:
        if len(part) == 2:
            findings.met[frozenset(part)] = answer
        if not answer.bad:
            pool.add(part)
    return tested


def _narrow(part: Sequence[Item], answer: Answer, pool: Pool, findings: Findings) -> Search:
    """Go on with a bad part: halve it, or convict the one item that it is."""
    if len(part) > 1:
        yield from hunt(part, pool, findings)
    else:
        yield from convict(part[0], answer, pool, findings)


def convict(item: Item, first: Answer, pool: Pool, findings: Findings) -> Search:
    """Accuse an item that is bad with two witnesses; with one only, the two of them.

    One witness would blame a good item for a path between the two that is bad.
    """
    avoid = frozenset(first.witness)
    if not pool.has(avoid):
        why = "bad together; there was no other witness"
        findings.accuse(Culprit("pair", item + first.witness, "low", why, hang=first.hang))
        return
    [second] = yield [Ask(item, pool, avoid)]
    if second.bad:
        yield from _accuse(item, first, second, pool, findings)
    else:
        pool.add([item])
        yield from _pair(item, first.witness, findings)


def _named(item: Item) -> str:
    return item[0] if len(item) == 1 else f"{item[0]} and {len(item) - 1} more"


def _accuse(item: Item, first: Answer, second: Answer, pool: Pool, findings: Findings) -> Search:
    """Accuse an item that is bad with two witnesses: the leaf, the node, or one rail of it."""
    hung = first.hang or second.hang
    why = f"bad with {_named(first.witness)} and with {_named(second.witness)}, which are good"
    if item in findings.leaves and len(item) > 1:
        why, name = f"good inside; {why}", findings.leaves[item]
        findings.accuse(Culprit("leaf", item, "high", why, name, hang=hung))
        return
    rail = None
    if findings.rails > 1:
        rail = yield from which_rail(item, pool, findings.rails)
    kind = "node" if rail is None else "rail"
    findings.accuse(Culprit(kind, item, "high", why, rail=rail, hang=hung))


def _pair(one: Item, two: Item, findings: Findings) -> Search:
    """Accuse two items, each of which is good with others, if they are bad together again."""
    if len(one) > 1 or len(two) > 1:
        yield from _leaves(one, two, findings)
        return
    [answer] = yield [Ask(one + two)]
    if answer.bad:
        sure = findings.good.issuperset(one + two)
        why = "each is good with others" if sure else "nothing tells which of the two it is"
        why = f"bad together, twice; {why}"
        findings.accuse(
            Culprit("pair", one + two, "high" if sure else "low", why, hang=answer.hang)
        )


def _leaves(one: Item, two: Item, findings: Findings) -> Search:
    """Tell whether two leaves do not get along at all, or only two nodes of them."""
    left, right = [(node,) for node in one], [(node,) for node in two]
    (first, second), (third, fourth) = halves(left), halves(right)
    if len(left) + len(right) > 2:
        other = (second or first, fourth or third)
        answers = yield [Ask(joined(a) + joined(b)) for a, b in ((first, third), other)]
        if all(answer.bad for answer in answers):
            names = " and ".join(findings.leaves.get(item, _named(item)) for item in (one, two))
            why = "no part of the one with any of the other; nothing tells which of the two it is"
            hung = any(answer.hang for answer in answers)
            findings.accuse(Culprit("leaf", one + two, "low", why, names, hang=hung))
            return
    yield from between(left, right, findings)


def between(left: Sequence[Item], right: Sequence[Item], findings: Findings) -> Search:
    """Find the two items, one of each side, that are bad together; each side alone is good.

    Halves of both sides meet, first across and then the other way, and those that are bad are
    halved again: at most two rounds for each halving.
    """
    if len(left) == len(right) == 1:
        yield from _pair(left[0], right[0], findings)
        return
    (one, two), (three, four) = halves(left), halves(right)
    for meetings in (((one, three), (two, four)), ((one, four), (two, three))):
        meeting = [(a, b) for a, b in meetings if a and b]
        answers = yield [Ask(joined(a) + joined(b)) for a, b in meeting]
        bad = [pair for pair, answer in zip(meeting, answers, strict=True) if answer.bad]
        if bad:
            yield from together([between(a, b, findings) for a, b in bad])
            return


def pair_up(items: Sequence[Item], pool: Pool, findings: Findings) -> Search:
    """Find the culprits among items that had no witness: new pairs, until one of them passes."""
    for pairs in islice(_new_pairs(items, findings), _MOST_PAIRINGS):
        if pool.has():
            break
        yield from _test(pairs, pool, findings)
    rest = [item for item in items if item not in pool]
    if pool.has():
        yield from together([_with_witnesses(item, pool, findings) for item in rest])
        yield from _strange_pair(items, pool, findings)
    else:
        yield from _nothing_passed(rest, findings)


def _nothing_passed(items: Sequence[Item], findings: Findings) -> Search:
    """Say what can be said of items of which no two passed together: a rail, a pair, or nothing."""
    hung = any(answer.hang for answer in findings.met.values())
    rail = None
    if findings.rails > 1:
        rail = yield from which_rail(joined(items), None, findings.rails)
    if rail is not None:
        why = "by this rail nothing passed, by the others together all of it"
        findings.accuse(Culprit("rail", joined(items), "low", why, rail=rail, hang=hung))
    elif len(items) == 2:
        why = "bad together; with no third node nothing tells which of the two it is"
        findings.accuse(Culprit("pair", joined(items), "low", why, hang=hung))
    elif any(item not in findings.leaves for item in items):
        findings.doubt(items)


def _new_pairs(items: Sequence[Item], findings: Findings) -> Iterator[list[tuple[Item, Item]]]:
    """Yield rounds of pairs that have not met; of two items only, they meet again."""
    for pairs in round_robin(items):
        new = [pair for pair in pairs if len(items) == 2 or frozenset(pair) not in findings.met]
        if new:
            yield new


def _with_witnesses(item: Item, pool: Pool, findings: Findings) -> Search:
    """Convict an item, or clear it; what it said with witnesses before counts."""
    met = []
    for other in pool.witnesses():
        answer = findings.met.get(frozenset((item, other)))
        if answer and answer.bad:
            met.append(Answer(bad=True, hang=answer.hang, witness=other))
    if len(met) > 1:
        yield from _accuse(item, met[0], met[1], pool, findings)
    elif met:
        yield from convict(item, met[0], pool, findings)
    else:
        for part, answer in (yield from _test([[item]], pool, findings)):
            if answer.bad:
                yield from convict(part[0], answer, pool, findings)


def _strange_pair(items: Sequence[Item], pool: Pool, findings: Findings) -> Search:
    """Accuse two items that were bad together and good with others."""
    for one, two in combinations(items, 2):
        answer = findings.met.get(frozenset((one, two)))
        if answer and answer.bad and one in pool and two in pool:
            yield from _pair(one, two, findings)


def which_rail(
    nodes: Item, pool: Pool | None, rails: int
) -> Generator[list[Ask], list[Answer], int | None]:
    """Return the one rail by which nodes are bad; None if it is none, or more than one."""
    every = tuple(range(rails))
    left: Sequence[int] = every
    while len(left) > 1:
        half, other = halves(left)
        [answer] = yield [Ask(nodes, pool, rails=tuple(half))]
        left = half if answer.bad else other
    others = tuple(rail for rail in every if rail != left[0])
    alone, without = yield [Ask(nodes, pool, rails=(left[0],)), Ask(nodes, pool, rails=others)]
    return left[0] if alone.bad and not without.bad else None
