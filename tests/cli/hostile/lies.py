"""Which wrong answers each verb gets: as many whatever the seed, in other places."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

from tests.cli.hostile import framing, wrong

SEED_VARIABLE = "RDMAPROV_FUZZ_SEED"
VERBS = ("plan", "validate", "apply --drifted", "discover", "accept")
_ENDS = (
    *("exit 1", "exit 77", "exit 127", "exit 255", "signal 9", "signal 11", "signal 15", "silence"),
    *("drip 5", "errors 100"),
)


@dataclass(frozen=True)
class Lie:
    """One wrong answer: `name` of its `kind`, at one of the `places`, `after` good ones."""

    kind: str
    name: str
    stage: str = ""
    of: str = ""
    places: tuple[wrong.Place, ...] = ()
    after: int = 0

    @property
    def title(self) -> str:
        return ": ".join(filter(None, [self.stage, self.of, self.kind, self.name]))

    @property
    def is_quiet(self) -> bool:
        """Return whether a run shows it only beside honest nodes, whose victim it seems."""
        return (self.stage, self.of, self.kind, self.name) in _QUIET

    @property
    def is_slow(self) -> bool:
        """Return whether only the time limit of a connection or a task ends it."""
        # A wrong body comes over a connection that is up, and each request has its own limit.
        return self.kind != "body" and self.name.startswith(
            ("silence", "drip", "slow drip", "errors")
        )

    def as_data(self, seed: int) -> dict[str, Any]:
        """Return what the lying node reads."""
        return {**asdict(self), "seed": f"{seed}: {self.title}"}


def seed() -> int:
    return int(os.environ.get(SEED_VARIABLE, "1"))


def _lies(kind: str, names: Iterable[str], **more: Any) -> Iterator[Lie]:
    return (Lie(kind, name, **more) for name in names)


def of_ansible(places: tuple[wrong.Place, ...], says: tuple[wrong.Place, ...]) -> list[Lie]:
    """Return wrong answers to a task of Ansible's; without `says`, the node fails with it."""
    return [
        *_lies("value", wrong.VALUES, places=places),
        *_lies("shape", wrong.SHAPES, places=places),
        *_lies("text", wrong.TEXTS),
        *_lies("saying", wrong.SAYINGS, places=says),
        *_lies("end", _ENDS),
    ]


def of_frames(after: int = 0, stage: str = "") -> list[Lie]:
    return [
        *_lies("beginning", framing.BEGINNINGS, stage=stage),
        *_lies("head", framing.HEADS, stage=stage, after=after),
        *_lies("body", framing.BODIES, stage=stage, after=after),
    ]


def _places(words: str) -> tuple[wrong.Place, ...]:
    """Return places in a document, each of them written as its keys with slashes between."""
    return tuple(
        tuple(int(key) if key.isdigit() else key for key in word.split("/"))
        for word in words.split()
    )


SURVEY = _places(
    "roles roles/limits roles/limits/changes roles/limits/reboot roles/limits/changes/0/seen "
    "pending problems boot_id"
)
# A text there may be any; so only what is no list, no mapping, or has a pattern.
STRICT_SURVEY = (*(place for place in SURVEY if place[-1] != "seen"),)
SURVEY_SAYS = (("problems", 0), ("roles", "limits", "changes", 0, "seen"))
FACTS = _places(
    "rails rails/0/pci rails/0/netdev rails/0/path rails/0/numa_node rails/0/gbps "
    "rails/0/addresses gpus gpus/0/pci memory_bytes numa_nodes kernel"
)
PREFLIGHT = _places(
    "time rails rails/0/there rails/0/addresses rails/0/counters others torch gpus port addresses "
    "identity identity/machine identity/rails identity/rails/0 identity/gpus identity/versions"
)
EVENTS = {
    "checked": _places("plane bytes dtypes rank"),
    "row": _places("plane bytes in_place count median_us p99_us"),
}
_QUIET = (
    ("preflight", "", "body", "garbage after"),  # behind a good answer: the next stage shows it
    ("status", "", "status", "never ends"),
    ("events", "", "events", "silence of the ranks"),
    # A line that is no event is what a library prints, so these events are missing.
    ("events", "checked", "value", "5,000 digits"),
    ("events", "checked", "value", "nested 10,000 deep"),
    ("events", "checked", "shape", "key renamed"),
)


def _of_accept() -> list[tuple[str, list[Lie]]]:
    """Return the runs of accept: one for each stage, as a wrong answer ends a run there."""
    frames = [lie for lie in of_frames(stage="preflight") if lie.kind != "beginning"]
    preflight = [
        *_documents("preflight", PREFLIGHT),
        *_lies("text", wrong.TEXTS, stage="preflight"),
        *_lies("saying", wrong.SAYINGS, stage="preflight", places=(("torch",),)),
    ]
    reach = [*_documents("reach", (("reach",), ("own",)))]
    job = [
        *_few("start", (("directory",),), 7),
        *_few("stop", (("left",),), 7),
        *_few("counters", (("time",), ("rails",)), 6),
        *_few("status", (("ranks",),), 12),
        Lie("text", "brackets", stage="status"),
        Lie("status", "never ends", stage="status"),
        *_lies("text", ("cut", "noise", "no UTF-8", "twice on a line"), stage="status"),
        Lie("events", "silence of the ranks", stage="events"),
        *_events(),
    ]
    stages = {"preflight frames": frames, "preflight": preflight, "reach": reach, "job": job}
    quiet = [lie for lies in stages.values() for lie in lies if lie.is_quiet]
    return [
        *((stage, [lie for lie in lies if not lie.is_quiet]) for stage, lies in stages.items()),
        *((f"alone {number}", [lie]) for number, lie in enumerate(quiet, start=1)),
    ]


def _documents(stage: str, places: tuple[wrong.Place, ...]) -> Iterator[Lie]:
    yield from _lies("value", wrong.VALUES, stage=stage, places=places)
    yield from _lies("shape", wrong.SHAPES, stage=stage, places=places)


def _few(stage: str, places: tuple[wrong.Place, ...], count: int) -> list[Lie]:
    """Return some of them, spread over the kinds."""
    every = list(_documents(stage, places))
    return every[:: len(every) // count][:count]


def _events() -> Iterator[Lie]:
    for lie, kind in zip(_documents("events", ()), cycle(EVENTS), strict=False):
        yield Lie(lie.kind, lie.name, "events", kind, EVENTS[kind])


def runs_of(verb: str) -> list[tuple[str, list[Lie]]]:
    """Return the runs that a verb's wrong answers take, each with its name."""
    if verb == "accept":
        return _of_accept()
    if verb == "validate":
        return [("frames", of_frames(after=2)), ("outputs", list(_lies("output", framing.OUTPUTS)))]
    if verb == "plan":
        return [("all", of_ansible(STRICT_SURVEY, SURVEY_SAYS))]
    places, says = (FACTS, ()) if verb == "discover" else (STRICT_SURVEY, SURVEY_SAYS)
    some = [lie for lie in of_ansible(places, says) if lie.kind in ("value", "saying")]
    # Facts that came whole are taken, whatever follows; a survey's are of a node that differs.
    frames = [lie for lie in of_frames() if (verb, lie.name) != ("discover", "garbage after")]
    return [("all", [*some, *frames])]


def of_verb(verb: str) -> list[Lie]:
    return [lie for _, lies in runs_of(verb) for lie in lies]
