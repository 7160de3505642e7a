"""Rules that a site waives for some nodes, each with a reason."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rdmaprov.contract.qos import NOTES
from rdmaprov.contract.rule import Rule, Violation
from rdmaprov.inventory.model import Node
from rdmaprov.problem import Problem, fold_problems, gather_places, merge_problems, printable
from rdmaprov.words import some

VARIABLE = "fabric_waivers"
# What keeps a download verified, a text from doing more than it says, a node reachable, or a role
# from a guess; floors have a reason of their own. The guard of the management path is no rule.
NOT_WAIVABLE = frozenset(
    {
        "acceptance.command",
        "acceptance.floor",
        "acceptance.launcher",
        "acceptance.one_launcher",
        "acceptance.reason",
        "acceptance.slurm",
        "limits.sysctl",
        "memory.fit",
        "modules.firmware",
        "modules.rails",
        "modules.shape",
        "modules.value",
        "names.internal",
        "nccl.format",
        "nccl.version",
        "ofed.digest",
        "ofed.origin",
        "ofed.version",
        "peermem.kernel",
        "rails.named",
        "rails.storage",
        "rails.unique",
        "range.pair",
        "range.tables",
        "range.value",
        "torch.pinned",
        "torch.runtime",
        "waivers.valid",
    }
)


NOTE = "a note, which refuses nothing"


@dataclass(frozen=True)
class Waived:
    """A problem that the site accepts."""

    problem: Problem
    reason: str

    @property
    def text(self) -> str:
        """Return both on one line."""
        found = self.problem
        where = f" [{some(found.hosts, 3)}]"
        line = f"waived ({found.rule}: {self.reason}): {found.variable}: {found.message}{where}"
        if self.reason == NOTE:
            line = f"note ({found.rule}): {found.variable}: {found.message}; {found.remedy}{where}"
        return printable(line)

    def as_data(self) -> dict[str, Any]:
        """Return the entry in results.json."""
        return {
            "rule": self.problem.rule,
            "reason": self.reason,
            "nodes": list(self.problem.hosts),
            "found": f"{self.problem.variable}: {self.problem.message}",
        }


def merge(waived: Iterable[Waived]) -> list[Waived]:
    """Return them sorted; what several nodes have is one, wherever it is written."""
    merged = [
        Waived(problem, reason)
        for reason, found in _by_reason(waived).items()
        for problem in merge_problems(gather_places(found))
    ]
    return sorted(merged, key=lambda each: (each.problem, each.reason))


def lines(waived: Iterable[Waived]) -> Iterator[str]:
    """Yield a line for each; more than three of one rule and variable share one."""
    for reason, found in _by_reason(waived).items():
        anywhere = found[0].position  # the lines do not name it
        for problem in fold_problems(replace(each, position=anywhere) for each in found):
            yield Waived(problem, reason).text


def _by_reason(waived: Iterable[Waived]) -> dict[str, list[Problem]]:
    found: dict[str, list[Problem]] = {}
    for each in waived:
        found.setdefault(each.reason, []).append(each.problem)
    return found


def split(
    found: Iterable[Problem], nodes: Mapping[str, Node]
) -> tuple[list[Problem], list[Waived]]:
    """Return the problems that stay, and those that their node's waivers accept."""
    stay: list[Problem] = []
    waived: list[Waived] = []
    for problem in found:
        why = reason(problem.rule, nodes[problem.hosts[0]])
        why = why or (NOTE if problem.rule in NOTES else "")
        if why:
            waived.append(Waived(problem, why))
        else:
            stay.append(problem)
    return stay, waived


def reason(rule: str, node: Node) -> str:
    """Return why a node's waivers accept a rule's problems; empty if they do not."""
    if rule in NOT_WAIVABLE:
        return ""
    for entry in _entries(node):
        names = entry.get("nodes") or ["*"]
        if entry.get("rule") == rule and any(fnmatch.fnmatchcase(node.name, n) for n in names):
            return str(entry.get("reason") or "").strip()
    return ""


def rules(ids: Iterable[str]) -> tuple[Rule]:
    """Return the rule that waivers must keep."""
    known = frozenset(ids)

    def find(node: Node) -> Iterator[Violation]:
        for index, entry in enumerate(_entries(node)):
            rule = entry.get("rule")
            if rule in NOT_WAIVABLE:
                message = f"{rule} protects nodes or downloads and cannot be waived"
                yield Violation(
                    VARIABLE, message, "remove it, and fix the problem that it names", (index,)
                )
            elif rule not in known:
                message = f"there is no rule {rule} that can be waived"
                remedy = "write the id at the end of the problem's line, such as qos.pfc-one"
                yield Violation(VARIABLE, message, remedy, (index,))
            elif not str(entry.get("reason") or "").strip():
                yield Violation(
                    VARIABLE, f"{rule} is waived without a reason", "write one", (index,)
                )

    sentence = "A waiver names a rule that may be waived, and a reason."
    return (Rule("waivers.valid", sentence, "docs/contract.md", find),)


def _entries(node: Node) -> list[Mapping[str, Any]]:
    found = node.get(VARIABLE)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
