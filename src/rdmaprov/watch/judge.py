"""All verdicts of a watch, so that one cause is accused once and a victim never."""

from __future__ import annotations

from rdmaprov.finding.finding import Finding
from rdmaprov.watch.balance import imbalances
from rdmaprov.watch.fleet import Place, WatchedFleet
from rdmaprov.watch.links import losses, lost_links, wrong_symbols
from rdmaprov.watch.pauses import congested, congestion, pausing, victims
from rdmaprov.watch.priorities import wrong_priorities
from rdmaprov.watch.rail import Column
from rdmaprov.watch.unknowns import unknowns


def judge(fleet: WatchedFleet) -> list[Finding]:
    """Return the verdicts: causes first, then what follows from them, then what is not known."""
    links = [*lost_links(fleet), *wrong_symbols(fleet)]
    pauses = list(pausing(fleet))
    full = congested(fleet)
    crowds = list(congestion(fleet, full))
    sources = [(place, each.kind) for each in pauses for place in _places(each)]
    sources += [(place, "traffic.congested") for place, _ in full]
    are_marks = any(rail.sums[Column.MARKED] for _, rail in fleet.rails())
    suffer = list(victims(fleet, sources, are_marks))
    bad_links = {place for each in links for place in _places(each)}
    lost = list(losses(fleet, bad_links, [place for place, _ in sources]))
    explained = bad_links | {
        place for each in (*pauses, *crowds, *suffer, *lost) for place in _places(each)
    }
    uneven = list(imbalances(fleet, explained))
    wrong = wrong_priorities(fleet)
    return [*links, *pauses, *crowds, *wrong, *lost, *uneven, *suffer, *unknowns(fleet)]


def _places(found: Finding) -> list[Place]:
    return [(node, found.rail) for node in found.nodes if found.rail is not None]
