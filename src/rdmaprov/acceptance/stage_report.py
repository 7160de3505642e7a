"""The stages of an acceptance: their order, and what came of each."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.finding.finding import Finding
from rdmaprov.words import quantity, some


@dataclass(frozen=True)
class Stage:
    """A stage of the gate; `StageRun` of gate.py has the method that runs it, `_run_NAME`.

    Args:
        is_always: whether it runs unasked, and once more when a run is resumed: what it found may
            have changed.
        is_lasting: whether nodes need not pass it again while they are as they were (ledger.py).
        option: what asks for it: else it does not run.
        drops: whether a node that it finds bad is left out of the later stages.
        ranks: which ranks stay for the next stage, if that has the same: those of each node
            `alone`, or of all nodes together, `live`.
        detail: the key of results.json that has all it measured; empty if `numbers` do.
    """

    name: str
    is_always: bool = False
    is_lasting: bool = False
    option: str = ""
    drops: bool = True
    ranks: str = ""
    detail: str = ""


# The cheap ones first; each needs fewer nodes at once than the next.
TABLE = {
    stage.name: stage
    for stage in (
        Stage("state", is_always=True),
        Stage("preflight", is_always=True),
        Stage("gpu", is_lasting=True, ranks="alone", detail="gpus"),
        Stage("host", is_lasting=True, ranks="alone"),
        Stage("pairs", is_lasting=True, ranks="live", detail="paths"),
        Stage("groups", is_lasting=True, ranks="live"),
        Stage("fleet", drops=False),
        Stage("soak", option="--soak", drops=False),
    )
}
STAGES = tuple(TABLE)
# Stages that are gone, by the one that they came after: certificates that have them stay readable.
_GONE = {"groups": "scaling", "fleet": "training"}
IN_FILES = tuple(each for name in STAGES for each in (name, _GONE.get(name)) if each)
USUAL = tuple(name for name, stage in TABLE.items() if not stage.option)
LASTING = tuple(name for name, stage in TABLE.items() if stage.is_lasting)
_STATES = ("passed", "failed", "unknown", "skipped")


def parse_stages(text: str) -> tuple[str, ...]:
    """Return the stages of a list such as `host,pairs`, in their order; the usual ones if empty.

    Raises:
        UsageError: there is no such stage.
    """
    if not text:
        return USUAL
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in USUAL:
            hint = f"Stages: {', '.join(USUAL)}"
            if name in TABLE:
                hint = f"{TABLE[name].option} adds it"
            raise UsageError(f"--stages: {name!r} is no stage", hint)
    return tuple(name for name in USUAL if name in names or TABLE[name].is_always)


def help_line() -> str:
    """Return the help of `--stages`."""
    always = " and ".join(name for name in USUAL if TABLE[name].is_always)
    chosen = ", ".join(name for name in USUAL if not TABLE[name].is_always)
    return f"Stages to run after {always}: {chosen}.  [default: all]"


@dataclass(frozen=True)
class StageNumber:
    """A number that a stage measured.

    Args:
        gb_s: the rate, in GB/s.
        least_gb_s: what it had to be; 0 where it was only compared, or judged with others.
    """

    what: str
    gb_s: float
    least_gb_s: float = 0.0


@dataclass
class StageReport:
    """What came of a stage.

    Attributes:
        said: one line on what it did; why, if it was skipped.
        left_out: nodes that it took out of the later stages, with the reason.
        intra_node_gb_s: bus bandwidth of an all-reduce inside the slowest good node; 0: unknown.
        detail: all that it measured, as results.json has it; None if it had nothing to measure.
        taken: by run that proved nodes, these, with what each reached by itself, GB/s; 0: no rate.
    """

    name: str
    said: str = ""
    seconds: float = 0.0
    is_skipped: bool = False
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    intra_node_gb_s: float = 0.0
    numbers: list[StageNumber] = field(default_factory=list)
    detail: dict[str, Any] | None = None
    taken: dict[str, dict[str, float]] = field(default_factory=dict)

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
            **({"taken": self.taken} if self.taken else {}),
        }


def stage_to_keep(report: StageReport) -> dict[str, Any]:
    """Return all of a stage, for a run that is resumed."""
    return {
        **report.as_data(),
        "is_skipped": report.is_skipped,
        "findings": [finding.as_data() for finding in report.findings],
        "notes": report.notes,
        "intra_node_gb_s": report.intra_node_gb_s,
        "detail": report.detail,
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
        [StageNumber(**each) for each in list(kept["numbers"])],
        dict(kept["detail"]) if kept["detail"] is not None else None,
        {run: dict(own) for run, own in dict(kept.get("taken", {})).items()},
    )


def leave_out(findings: list[Finding], nodes: tuple[str, ...]) -> dict[str, str]:
    """Return the nodes that findings take out of the later stages, with the reason.

    Of two nodes whose path is bad, one is enough. What concerns the fleet takes out nobody, and
    neither does what concerns most of it.
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
