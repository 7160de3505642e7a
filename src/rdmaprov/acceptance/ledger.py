"""The ledger of an acceptance: what kept runs prove of nodes that are as they were.

docs/decisions/acceptance.md says what is taken from a run, and what is measured again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.stage_report import LASTING, StageReport
from rdmaprov.inventory import Node
from rdmaprov.runs.directory import run_time, runs_directory
from rdmaprov.runs.last_word import CHANGES, STALE, words_of
from rdmaprov.runs.results import ALONE, newest_paths, results_of
from rdmaprov.words import quantity, some

# What a node's tests depend on, by the key of its entry in results.json; and what is said if it
# is another one now.
_DEPENDS = {
    "backend": "another backend since",
    "boot_id": "another boot since",
    "site_sha256": "other variables in the site since",
    "identity": "other hardware or firmware since",
    "versions": "another system or driver since",
    "torch": "another torch since",
    "nccl": "another NCCL since",
}
_NEEDED = ("boot_id", "site_sha256", "identity")
# A node is compared with others: of fewer than four, one that is slow may set what is usual.
_LEAST_NODES = 4


@dataclass(frozen=True)
class KeptProof:
    """What the newest kept run that had a node says of it.

    Args:
        entry: what its tests depend on, as that run read it.
        runs: by stage that it passed, the name of the run that measured it.
        alone_gb_s: what its all-reduce reached by itself; 0: unknown.
        why: why nothing is taken, in words; empty if something is.
    """

    run: str
    entry: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    alone_gb_s: float = 0.0
    why: str = ""

    def differs(self, now: Mapping[str, Any]) -> str:
        """Return why nothing is taken of a node that is now like this; empty if something is."""
        if self.why:
            return self.why
        if not all(self.entry.get(key) for key in _NEEDED):
            return "not described enough in"
        return _change(self.entry, now)


def _change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    changed = (key for key in _DEPENDS if before.get(key) != now.get(key))
    return next((_DEPENDS[key] for key in changed), "")


KeptProofs = Mapping[str, KeptProof]
_Others = dict[tuple[str, str], list[str]]  # by run and reason, the nodes


def read_ledger(
    site: Path, nodes: Collection[str], days: int, runs: Path | None = None
) -> dict[str, KeptProof]:
    """Return the newest proof of each node that a kept run has, good or bad.

    Args:
        days: how long a proof counts; the last day is left to who takes it.
    """
    oldest = datetime.now(UTC) - timedelta(days=days - 1)
    found: dict[str, KeptProof] = {}
    for path in newest_paths(runs or runs_directory(), "accept", *CHANGES):
        run = path.parent.name
        if found.keys() >= set(nodes):
            break
        if _is_younger(run, oldest) and (data := results_of(path, site)) is not None:
            found = {**proofs_of(run, data, oldest), **found}
    return {name: found[name] for name in nodes if name in found}


def _is_younger(run: str, oldest: datetime) -> bool:
    try:
        return run_time(run) >= oldest
    except ValueError:  # no name of ours
        return False


def proofs_of(run: str, data: Mapping[str, Any], oldest: datetime) -> dict[str, KeptProof]:
    """Return what a run's results say of its nodes; nothing if they are somebody's work.

    Args:
        oldest: the time before which no run counts.
    """
    if data.get("verb") in CHANGES:
        words = words_of(run, data)
        return {name: KeptProof(run, why="changed by") for name, w in words if w.state == STALE}
    try:
        return dict(_measured(run, data, oldest))
    except (KeyError, TypeError, AttributeError, ValueError):
        return {}


def _measured(
    run: str, data: Mapping[str, Any], oldest: datetime
) -> Iterator[tuple[str, KeptProof]]:
    passed: dict[str, dict[str, str]] = defaultdict(dict)
    rates: dict[str, float] = {}
    for stage in data["stages"]:
        taken = {
            name: (of, rate)
            for of, own in stage.get("taken", {}).items()
            for name, rate in own.items()
        }
        if stage["name"] not in LASTING or stage["state"] == "skipped":
            continue
        rates |= {
            each["what"].removesuffix(ALONE): float(each["gb_s"]) for each in stage["numbers"]
        }
        rates |= {name: float(rate) for name, (_, rate) in taken.items() if rate}
        for name in data["nodes"]:
            if _is_younger(of := taken.get(name, (run,))[0], oldest):
                passed[name][stage["name"]] = of
    is_void = any(not each["nodes"] for each in data["findings"])
    for name, own in data["nodes"].items():
        why = (
            "findings in"
            if own["findings"]
            else "a fault that nobody was named for in"
            if is_void
            else ""
        )
        entry = {**own, "backend": data["backend"]}
        yield name, KeptProof(run, entry, passed[name], rates.get(name, 0.0), why)


def still_true(
    proofs: KeptProofs, now: Mapping[str, Mapping[str, Any]], backend: str
) -> tuple[dict[str, KeptProof], list[str]]:
    """Return the proofs of nodes that are as they were, and which others are measured again.

    Args:
        now: the nodes as results.json has them.
    """
    other: _Others = defaultdict(list)
    same = {}
    for name, each in proofs.items():
        if name in now and (why := each.differs({**now[name], "backend": backend})):
            other[each.run, why].append(name)
        elif name in now:
            same[name] = each
    return same, _notes(other)


def changed_since(
    run: str, before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return which nodes are not as a run had them, with why; empty if all are.

    Args:
        before: the nodes as that run read them, by results.json's keys; one that it did not
            reach has empty values.
    """
    other: _Others = defaultdict(list)
    for name, own in now.items():
        if why := _change(before.get(name, {}), own):
            other[run, why].append(name)
    return _notes(other)


def _notes(other: _Others) -> list[str]:
    return [f"measured again: {some(names, 4)}: {why} {run}" for (run, why), names in other.items()]


def proven(proofs: KeptProofs, stage: str, nodes: Sequence[Node]) -> dict[str, KeptProof]:
    """Return the nodes that a stage of single nodes leaves out, with their proofs.

    Some that are proven are measured again beside one that is not, which is compared with them.
    """
    own = [n.name for n in nodes if n.name in proofs and stage in proofs[n.name].runs]
    new = len(nodes) - len(own)
    return {name: proofs[name] for name in (own[max(0, _LEAST_NODES - new) :] if new else own)}


def proven_leaves(proofs: KeptProofs, stage: str, nodes: Sequence[Node]) -> dict[str, KeptProof]:
    """Return the proofs of all nodes, if one run measured those of each leaf; none else."""
    runs: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        proof = proofs.get(node.name)
        runs[node.leaf].add(proof.runs.get(stage, "") if proof else "")
    if all(len(own) == 1 and "" not in own for own in runs.values()):
        return {node.name: proofs[node.name] for node in nodes}
    return {}


def take(report: StageReport, proofs: KeptProofs, what: str = "") -> None:
    """Add to a stage's report what was taken of nodes, and say so.

    Args:
        what: what of them was taken, in words; empty for all that the stage does.
    """
    is_host = report.name == "host"
    for name, each in proofs.items():
        rate = each.alone_gb_s if is_host else 0.0
        report.taken.setdefault(each.runs[report.name], {})[name] = rate
    rates = [rate for own in report.taken.values() for rate in own.values() if rate]
    if report.intra_node_gb_s:
        rates.append(report.intra_node_gb_s)
    report.intra_node_gb_s = min(rates, default=0.0)
    if proofs:
        count = quantity(len(proofs), "node")
        said = f"{what}{count} proven by {some(report.taken, 3)}"
        report.said += f"; {said}" if report.said else said
