"""Who is at fault among things that are tested two at a time, all side by side.

A thing that passes with another one is cleared. One that does not is tested with cleared ones, its
witnesses; so a bad path between two good ones is not taken for a bad one. Each round has everybody
in it, because what shares a switch must be as busy in one round as in the next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.isolation.compare import upper_tail
from rdmaprov.isolation.meetings import Meetings, Pair, disjoint

Measure = Callable[[Sequence[Pair]], Mapping[Pair, float]]
WITNESSES = 2
# A bad thing takes six rounds: its first pair, with two witnesses, each of them twice. The rest is
# for faults that are many, or that come and go.
MOST_ROUNDS = 16
# With half of them bad, one good thing in 64 meets only bad ones in as many tests.
_MOST_SUSPECTS = 6
# How many good things of a fleet may look as bad as one that is accused.
_MOST_CHANCE = 0.01


@dataclass
class WitnessSearch:
    """A search among things of one kind.

    Args:
        measure: tests pairs side by side and returns what they reached; a pair without a result is
            left out, and so are things that twice have none.
        schedule: rounds of pairs that come first, and fill up later ones.
    """

    things: Sequence[str]
    measure: Measure
    schedule: Iterator[Sequence[Pair]]
    may_meet: Callable[[str, str], bool] = lambda _one, _other: True
    meetings: Meetings = field(default_factory=Meetings)
    rounds: int = 0
    _missed: dict[str, int] = field(default_factory=dict)

    def run(self, first: int, most: int = MOST_ROUNDS) -> None:
        """Test pairs: `first` rounds of the schedule, then until all questions are answered."""
        while self.rounds < most:
            used: set[str] = {thing for thing, count in self._missed.items() if count > 1}
            asked = disjoint(self.meetings.unsettled(), used)
            asked += disjoint(self._questions(used), used)
            if self.rounds >= first and not asked:
                return
            asked += disjoint(next(self.schedule, ()), used)
            asked += self.fill(used)
            if not asked:
                return
            reached = self.measure(asked)
            self.meetings.add(reached)
            self.rounds += 1
            for pair in asked:
                if pair not in reached:
                    self._missed.update({it: self._missed.get(it, 0) + 1 for it in pair})

    def cleared(self) -> list[str]:
        """Return the things that passed with another one."""
        return [thing for thing in self.things if self.meetings.partners(thing, bad=False)]

    def suspects(self) -> list[str]:
        """Return the things that passed with none."""
        return [
            thing
            for thing in self.things
            if self.meetings.partners(thing, bad=True)
            and not self.meetings.partners(thing, bad=False)
        ]

    def accused(self) -> dict[str, list[str]]:
        """Return the things at fault, with the cleared ones with which they failed.

        They failed with two or more that pass with others, and passed with fewer than that.
        """
        cleared, found = set(self.cleared()), {}
        for thing in self.things:
            bad = [it for it in self.meetings.partners(thing, bad=True) if it in cleared]
            if len(bad) >= WITNESSES and len(bad) > len(self.meetings.partners(thing, bad=False)):
                found[thing] = bad
        usual = self._usual_share(set(found))
        return {
            thing: bad
            for thing, bad in found.items()
            # One that fails only with those at fault may be their victim.
            if (thing not in cleared or sum(it not in found for it in bad) >= WITNESSES)
            and len(self.things) * self._chance(thing, usual) < _MOST_CHANCE
        }

    def _usual_share(self, apart: set[str]) -> float:
        """Return how many of the other pairs are bad: colliding flows slow any two."""
        pairs = [pair for pair in self.meetings.pairs() if apart.isdisjoint(pair)]
        return sum(self.meetings.is_bad(*pair) for pair in pairs) / max(1, len(pairs))

    def _chance(self, thing: str, usual: float) -> float:
        """Return how likely a good thing fails as often, by the binomial distribution."""
        bad, good = (len(self.meetings.partners(thing, bad=it)) for it in (True, False))
        return upper_tail(bad, bad + good, usual)

    def bad_pairs(self) -> list[Pair]:
        """Return pairs that fail together, of which neither is at fault by itself."""
        accused = self.accused()
        return [pair for pair in self.meetings.bad_pairs() if accused.keys().isdisjoint(pair)]

    def _questions(self, used: set[str]) -> Iterator[Pair]:
        """Yield a pair for each thing that needs a witness; `used` grows while this is read."""
        cleared = self.cleared()
        bad = {
            thing: self.meetings.partners(thing, bad=True)
            for thing in self.things
            if thing not in used
        }
        suspects = [thing for thing, others in bad.items() if others and self._is_open(thing)]
        for thing in suspects:
            yield from self._first_new(thing, [*cleared, *suspects], used)

    def _is_open(self, thing: str) -> bool:
        """Return whether more tests would say more of it."""
        good, bad = (self.meetings.partners(thing, bad=is_bad) for is_bad in (False, True))
        cleared = {it for it in bad if self.meetings.partners(it, bad=False)}
        if good:  # one bad pair, or something that comes and goes
            return len(bad) > 1 and len(good) < WITNESSES and len(bad) <= len(good) + WITNESSES
        return len(cleared) < WITNESSES and (bool(cleared) or len(bad) < _MOST_SUSPECTS)

    def _first_new(self, thing: str, others: Iterable[str], used: set[str]) -> Iterator[Pair]:
        for other in others:
            fits = other != thing and other not in used and self.may_meet(thing, other)
            if fits and not self.meetings.is_met(thing, other):
                yield thing, other
                return

    def fill(self, used: set[str]) -> list[Pair]:
        """Return pairs of those that are idle, so that a round is as busy as the others."""
        return disjoint(self._idle_pairs(used), used)

    def _idle_pairs(self, used: set[str]) -> Iterator[Pair]:
        idle = [thing for thing in self.things if thing not in used]
        for number, thing in enumerate(idle):
            if thing not in used:
                near = (it for it in idle[number + 1 :] if it not in used)
                yield from ((thing, it) for it in near if self.may_meet(thing, it))
