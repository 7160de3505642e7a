"""Each verb against its wrong answers: how many there were, and which did harm."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.cli.hostile import record
from tests.cli.hostile.fleet import HONEST, Fleet, Ran
from tests.cli.hostile.lies import Lie, seed

# The role limits with nothing to do: this machine is as the site says.
NOTHING: dict[str, Any] = {
    "limits_memlock_users": [],
    "limits_memlock_services": [],
    "limits_sysctl": {},
}
HONEST_RANKS = 3  # of a run of accept: two nodes would have nobody to agree with
GOOD_STATES = ("passed", "unchanged", "changed", "pending", "half_done", "not_begun")


@dataclass
class Tally:
    """What a verb held."""

    verb: str  # its name
    tried: int = 0  # the number of wrong answers
    # what they did, by title; an empty title is of the run
    harm: list[str] = field(default_factory=list)

    @property
    def held(self) -> int:
        """Return how many did nothing."""
        return max(0, self.tried - len(self.harm))

    def count(self, fleet: Fleet, ran: Ran, is_bad: Callable[[str], bool]) -> None:
        """Add a run; `is_bad` tells by a node's name whether the run shows that it is not good."""
        self.tried += len(fleet.lies)
        self.harm += ran.wrong
        for name, lie in fleet.lies.items():
            if not fleet.told(name).exists():
                self.harm.append(f"{name} ({lie.title}) was never asked")
            elif not is_bad(name):
                self.harm.append(f"{name} ({lie.title}) is taken for good")

    def require(self, fact: bool, otherwise: str) -> None:
        """Add what is wrong with the honest node."""
        if not fact:
            self.harm.append(otherwise)


def try_run(verb: str, lies: list[Lie], directory: Path, chosen: int | None = None) -> Tally:
    return _TRIES[verb](directory, lies, seed() if chosen is None else chosen)


def total(verb: str, runs: Iterable[Tally]) -> Tally:
    tally = Tally(verb)
    for ran in runs:
        tally.tried += ran.tried
        tally.harm += ran.harm
    return tally


def _try_ansible(verb: str, directory: Path, lies: list[Lie], number: int) -> Tally:
    fleet = Fleet(directory, [], {}, number, NOTHING)
    good = record.survey(fleet.here / "site", HONEST)
    again = _directory(directory, "lies")
    fleet = Fleet(again, lies, {"verb": verb, "good": good}, number, NOTHING)
    ran = fleet.run(*verb.split(), "site", "--roles", "limits")
    tally = Tally(verb)
    tally.count(fleet, ran, lambda name: _state(ran, name) not in ("", *GOOD_STATES))
    tally.require(_state(ran, HONEST) == "unchanged", f"the honest node is {_state(ran, HONEST)}")
    return tally


def _try_discover(directory: Path, lies: list[Lie], number: int) -> Tally:
    fleet = Fleet(directory, lies, {"verb": "discover", "good": record.facts()}, number)
    ran = fleet.run("discover", "site")
    tally = Tally("discover")
    # Nodes that failed alike share a line, which names some and counts all.
    silent = f"could not read {len(lies)} of {len(lies) + 1} nodes" in ran.said
    tally.count(fleet, ran, lambda _: silent)
    tally.require("# host_vars/honest.yml\n---\n" in ran.said, "the honest node has no facts")
    tally.require("# host_vars/liar" not in ran.said, "facts of a liar are printed")
    return tally


def _try_validate(directory: Path, lies: list[Lie], number: int) -> Tally:
    file = directory / "said"
    writes = {"verb": "validate", "file": str(file)}
    first = Fleet(_directory(directory, "record"), [Lie("record", "")], writes, number)
    alone = first.run("validate", "site")
    data = {"verb": "validate", "good": record.outputs(file)}
    fleet = Fleet(_directory(directory, "lies"), lies, data, number)
    ran = fleet.run("validate", "site")
    tally = Tally("validate")
    tally.count(fleet, ran, lambda name: _state(ran, name) in ("failed", "unknown"))
    tally.require(
        _own(alone.nodes) == _own(ran.nodes) != {}, "the honest node's results are others"
    )
    return tally


def _try_accept(directory: Path, lies: list[Lie], number: int) -> Tally:
    fleet = Fleet(directory, lies, {"verb": "accept"}, number, replayed=HONEST_RANKS)
    ran = fleet.run(
        *("accept", "site", "--ignore-validate", "--backend", "gloo", "--sizes", "1M:1M"),
        *("--isolate", "never", "--stages", "fleet", "--timeout", "10"),
    )
    found = {name: entry["findings"] for name, entry in ran.nodes.items()}
    tally = Tally("accept")
    tally.count(fleet, ran, lambda name: found.get(name, 0) > 0)
    for name in fleet.honest:
        tally.require(found.get(name) == 0, f"{name} is accused, or has no result")
    return tally


_TRIES: Mapping[str, Callable[[Path, list[Lie], int], Tally]] = {
    "plan": partial(_try_ansible, "plan"),
    "apply --drifted": partial(_try_ansible, "apply --drifted"),
    "discover": _try_discover,
    "validate": _try_validate,
    "accept": _try_accept,
}


def _directory(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    return path


def _state(ran: Ran, name: str) -> str:
    return str(ran.nodes.get(name, {}).get("state", ""))


def _own(nodes: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = nodes.get(HONEST, {}).get("subjects", {})
    return found
