"""One thing that keeps nodes from being accepted: its kind, its place, and what was seen."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.kinds import kinds
from rdmaprov.problem import printable
from rdmaprov.words import some

# What a finding is about, the smallest part first; empty where nothing is named.
LEVELS = ("rail", "rank", "node", "pair", "leaf", "fleet", "")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or unknown.

    `what` and `remedy` are for people; whatever decides goes by the kind, the place and `values`.

    Raises:
        KeyError: no kind has that id.
    """

    kind: str
    what: str  # what is wrong: seen, expected, and where it was read
    remedy: str = ""  # the action that repairs it, and where to run it; empty if there is none
    node: str = ""  # the node, by default the one of `nodes`; empty if it concerns several
    rail: int | None = None  # the rail's number, None if it concerns no rail
    proven: bool = True  # whether it is known to be wrong; else it is unknown
    unreachable: bool = False  # whether it is unknown because there was no connection to the node
    level: str = ""  # one of LEVELS; by default what `node`, `nodes` and `rail` say
    # all that it concerns, such as both ends of a path; by default `node`
    nodes: tuple[str, ...] = ()
    leaf: str = ""  # the leaf's name, empty if it is about none
    # what is smaller than node and rail, or is no node: a counter, `GPU 3`, a device, a switch, a
    # place in a file; or empty
    part: str = ""
    # the port's number on the switch or device that `part` names; None if it is no port's
    port: int | None = None
    # the numbers and names of `what`, by name and unit
    values: Mapping[str, float | str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Complete the node, the nodes and the level."""
        kinds()[self.kind]
        nodes = self.nodes or ((self.node,) if self.node else ())
        object.__setattr__(self, "node", nodes[0] if len(nodes) == 1 else self.node)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "level", self.level or self._usual_level())

    def _usual_level(self) -> str:
        """Return the level of a finding whose maker does not say it."""
        if len(self.nodes) == 2:  # the ends of a path
            return "pair"
        if self.rail is not None:
            return "rail"
        return "node" if len(self.nodes) == 1 else ""

    @property
    def text(self) -> str:
        """Return the finding as one line."""
        where = self.node or some(self.nodes, 4)
        if self.rail is not None:
            where = f"{where} rail {self.rail}".strip()
        state = "" if self.proven else "unreachable: " if self.unreachable else "unknown: "
        text = f"{state}{self.what.rstrip('.')}. {self.remedy}".rstrip()
        return printable(f"{where}: {text}" if where else text)

    def as_data(self) -> dict[str, object]:
        """Return the finding as JSON has it."""
        return {
            "kind": self.kind,
            "node": self.node,
            "nodes": list(self.nodes),
            "level": self.level,
            "rail": self.rail,
            "leaf": self.leaf,
            "part": self.part,
            "what": self.what,
            "remedy": self.remedy,
            "proven": self.proven,
            "values": dict(self.values),
        }


def exit_code(found: Collection[Finding]) -> ExitCode:
    """Return 1 if something is wrong, 4 if something is unknown, else 0."""
    if any(each.proven for each in found):
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if found else ExitCode.OK


def apply_remedy(roles: str, node: str) -> str:
    """Return the remedy that some roles repair a node."""
    return f"Run from the controller: rdmaprov apply SITE --limit {node} --roles {roles}"
