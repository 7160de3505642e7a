"""What history keeps of one run."""

from dataclasses import asdict, dataclass, field

LOWER_IS_BETTER = "us"
NOT_RUN = "not run"  # the state of a node of which a run asked a part, and found nothing


@dataclass(frozen=True, slots=True)
class RunSeries:
    """What the same measurement of several runs is, so that they can be compared."""

    stage: str
    what: str  # is measured, such as `bus bandwidth of all rails`
    node: str  # the node, empty for all together
    rail: int | None  # the rail's number, None if it concerns no single rail
    bytes: int  # the size of the messages, 0 where there is one size only
    unit: str  # GB/s, or us, of which less is better
    scope: str  # what else must be equal: the backend and the number of ranks

    @property
    def lower_is_better(self) -> bool:
        """Return whether a lower value is the better one."""
        return self.unit == LOWER_IS_BETTER

    def as_data(self) -> dict[str, object]:
        """Return the series' identity as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """A version or an identity of a node; of the whole run, if the node is empty."""

    node: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """A check that did not pass, or a finding."""

    key: str  # the kind, and what it is about; the same as `words` where a run has no kinds
    node: str  # the node, empty if it concerns no single one
    rail: int | None  # the rail's number, None if it concerns no single rail
    text: str
    proven: bool
    words: str  # the text without nodes, devices and numbers: the key of runs that have no kinds


@dataclass(frozen=True, slots=True)
class AppliedSetting:
    """A setting that `apply` changed on a node."""

    node: str
    role: str
    device: str
    setting: str
    seen: str
    wanted: str


@dataclass
class RunDigest:
    """What history keeps of one run."""

    name: str
    verb: str
    site: str  # the inventory directory, as the user named it
    limit: str  # Ansible's pattern; empty for all nodes
    started: float  # seconds since 1970
    seconds: float
    exit_code: int
    # of each node, in the words of its verb, or NOT_RUN
    states: dict[str, str] = field(default_factory=dict)
    # nodes that were not asked everything; the fleet is empty
    partial: set[str] = field(default_factory=set)
    stages: dict[str, str] = field(default_factory=dict)  # the state of each stage of an acceptance
    values: dict[RunSeries, float] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)  # what did not pass
    settings: list[AppliedSetting] = field(default_factory=list)
