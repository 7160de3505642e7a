"""What each reader is: the commands to ask a switch of one system, and how answers are read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rdmaprov.switches.model import SwitchFact, SwitchReading, SwitchSystem
from rdmaprov.switches.saved import SavedAnswer
from rdmaprov.switches.shapes import PortTable


@dataclass(frozen=True)
class SwitchAsk:
    """A command to ask; PORT in it stands for each port."""

    command: str
    tells: str
    facts: tuple[SwitchFact, ...] = ()


@dataclass(frozen=True)
class SwitchReader:
    """How a system is asked and read."""

    system: SwitchSystem
    asks: tuple[SwitchAsk, ...]  # the commands whose answers it reads; none changes the switch
    knows: Callable[[SavedAnswer], bool]
    # what such answers say, of a switch of this name
    read: Callable[[str, Sequence[SavedAnswer]], SwitchReading]


@dataclass
class ReadingDraft:
    """A reading that is being put together."""

    name: str
    system: SwitchSystem
    ports: PortTable = field(default_factory=PortTable)
    where: dict[SwitchFact, str] = field(default_factory=dict)
    not_read: list[str] = field(default_factory=list)

    def finish(self) -> SwitchReading:
        """Return the reading."""
        return SwitchReading(
            self.name, self.system, tuple(self.ports), dict(self.where), tuple(self.not_read)
        )
