"""The stages of an acceptance: their order, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rdmaprov.acceptance.finding import Finding
from rdmaprov.errors import UsageError
from rdmaprov.words import quantity, some

# The cheap ones first; each needs fewer nodes at once than the next.
STAGES = ("state", "preflight", "host", "pairs", "groups", "scaling", "fleet", "training", "soak")
# These run only if they are asked for.
EXTRA = ("scaling", "training", "soak")
USUAL = tuple(name for name in STAGES if name not in EXTRA)
# These are done again when a run is resumed: what they found may have changed.
ALWAYS = ("state", "preflight")
_STATES = ("passed", "failed", "unknown", "skipped")


def parse_stages(text: str) -> tuple[str, ...]:
    """Return the stages of a list such as `host,pairs`, in their order; the usual ones if empty.

    Raises:
        UsageError: there is no such stage.

    """
    if not text:
        return USUAL
    names = [word.strip() for word in text.split(",")]
    known = STAGES[:-1]
    for name in names:
        if name not in known:
            hint = "--soak 30m adds a soak" if name == "soak" else f"Stages: {', '.join(known)}"
            raise UsageError(f"--stages: {name!r} is no stage", hint)
    return tuple(name for name in known if name in names or name in ALWAYS)


@dataclass(frozen=True)
class StageNumber:
    """A number that a stage measured.

    Args:
        what: it is.
        gb_s: it, in GB/s.
        least_gb_s: what it had to be; 0 where it was only compared, or judged with others.

    """

    what: str
    gb_s: float
    least_gb_s: float = 0.0


@dataclass
class StageReport:
    """What came of a stage.

    Attributes:
        name: of STAGES.
        said: one line on what it did; why, if it was skipped.
        seconds: that it took.
        is_skipped: whether there was nothing to do.
        findings: what it found.
        notes: what else a reader must know.
        left_out: nodes that it took out of the later stages, with the reason.
        intra_node_gb_s: bus bandwidth of an all-reduce inside the slowest good node; 0: unknown.
        paths: tests of single paths, as path_data has them; None if it had none.
        numbers: what it measured.
        scaling: bus bandwidth by the number of nodes, as stages_scaling has it; None if not asked.
        training: steps of a model, as training.data has them; None if it had none.

    """

    name: str
    said: str = ""
    seconds: float = 0.0
    is_skipped: bool = False
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    intra_node_gb_s: float = 0.0
    paths: dict[str, Any] | None = None
    numbers: list[StageNumber] = field(default_factory=list)
    scaling: dict[str, Any] | None = None
    training: dict[str, Any] | None = None

    @property
    def state(self) -> str:
        """Return passed, failed, unknown or skipped."""
        if any(finding.proven for finding in self.findings):
            return "failed"
        if self.findings:
            return "unknown"
        return "skipped" if self.is_skipped else "passed"

    @property
    def text(self) -> str:
        """Return the stage as one line."""
        return f"{self.name}: {'skipped: ' if self.is_skipped else ''}{self.said}"

    def as_data(self) -> dict[str, Any]:
        """Return the stage as results.json has it."""
        return {
            "name": self.name,
            "state": self.state,
            "seconds": round(self.seconds, 1),
            "said": self.said,
            "findings": len(self.findings),
            "left_out": dict(self.left_out),
            "numbers": [asdict(number) for number in self.numbers],
        }


def stage_to_keep(report: StageReport) -> dict[str, Any]:
    """Return all of a stage, for a run that is resumed."""
    return {
        **report.as_data(),
        "is_skipped": report.is_skipped,
        "findings": [finding.as_data() for finding in report.findings],
        "notes": report.notes,
        "intra_node_gb_s": report.intra_node_gb_s,
        "paths": report.paths,
        "scaling": report.scaling,
        "training": report.training,
    }


def stage_from(kept: Mapping[str, Any]) -> StageReport:
    """Return the stage that `stage_to_keep` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is not of that shape.

    """
    if kept["name"] not in STAGES or kept["state"] not in _STATES:
        raise ValueError(f"{kept['name']!r} is no stage of this version")
    findings = [
        Finding(**{**each, "nodes": tuple(each["nodes"])}) for each in list(kept["findings"])
    ]
    return StageReport(
        kept["name"],
        str(kept["said"]),
        float(kept["seconds"]),
        bool(kept["is_skipped"]),
        findings,
        [str(note) for note in kept["notes"]],
        {str(name): str(why) for name, why in dict(kept["left_out"]).items()},
        float(kept["intra_node_gb_s"]),
        dict(kept["paths"]) if kept["paths"] is not None else None,
        [StageNumber(**each) for each in list(kept["numbers"])],
        dict(kept["scaling"]) if kept.get("scaling") is not None else None,
        dict(kept["training"]) if kept.get("training") is not None else None,
    )


def leave_out(findings: list[Finding], nodes: tuple[str, ...]) -> dict[str, str]:
    """Return the nodes that findings take out of the later stages, with the reason.

    Of two nodes whose path is bad, one is enough. What concerns the fleet takes out nobody, and
    neither does what concerns most of it.

    Args:
        findings: of a stage.
        nodes: those that took part in it.

    """
    found: dict[str, str] = {}
    for each in findings:
        why = each.what[:200]
        if each.node in nodes:
            found.setdefault(each.node, why)
        elif each.level == "pair" and not found.keys() & set(each.nodes):
            found.setdefault(each.nodes[-1], f"its path to {each.nodes[0]}: {why}")
        elif each.level == "leaf" and 2 * len(each.nodes) < len(nodes):
            found.update({name: why for name in each.nodes if name not in found})
    return {name: why for name, why in found.items() if name in nodes}


def left_out_line(name: str, left_out: Mapping[str, str]) -> str:
    """Return the line that says who takes no part in the later stages."""
    left = quantity(len(left_out), "node")
    return f"{name}: {left} left out of the next stages: {some(left_out, 4)}"
