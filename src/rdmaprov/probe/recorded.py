"""What a node answered, kept; and a node that answers from that alone."""

from collections.abc import Callable, Mapping

from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target


class RecordingProbe(Probe):
    """A probe of one node that keeps each command's last answer.

    Attributes:
        answers: by command, its answer, or why the node gave none.
        lost: why the node is unreachable; None if it answered all the time.
    """

    def __init__(self, targets: Mapping[str, Target | NodeError]) -> None:
        super().__init__(targets)
        self.answers: dict[str, Answer | str] = {}
        self.lost: NodeUnreachable | None = None

    def run(
        self, name: str, text: str, fresh: bool = False, limit_s: float | None = None
    ) -> Answer:
        """Return and keep a command's answer; see Probe.run."""
        try:
            answer = super().run(name, text, fresh, limit_s)
        except NodeError as error:
            self._keep(name, text, error)
            raise
        self._keep(name, text, answer)
        return answer

    def run_all(
        self, commands: Mapping[str, Command], count: Callable[[], None] = lambda: None
    ) -> dict[str, Answer | NodeError]:
        """Return and keep what a command of each node gave; see Probe.run_all."""
        found = super().run_all(commands, count)
        for name, one in found.items():
            self._keep(name, commands[name].text, one)
        return found

    def _keep(self, name: str, text: str, found: Answer | NodeError) -> None:
        if isinstance(found, NodeUnreachable):
            self.lost = found
        elif isinstance(found, NodeError):
            self.answers[text] = found.message.removeprefix(f"{name}: ")
        else:
            self.answers[text] = found


class RecordedProbe:
    """A node that is a record: what it was not asked is unknown.

    Args:
        answers: by command, its answer, or why the node gave none.

    Attributes:
        live: of no effect.
    """

    def __init__(self, answers: Mapping[str, Answer | str]) -> None:
        self.live = False
        self._answers = answers

    def run(
        self,
        name: str,
        text: str,
        fresh: bool = False,  # noqa: ARG002 - there is nothing fresher
        limit_s: float | None = None,  # noqa: ARG002
    ) -> Answer:
        """Return a command's answer; raise NoAnswer if neither record nor node gave one."""
        found = self._answers.get(text)
        if isinstance(found, Answer):
            return found
        why = f"not in the record: {Command(text, 0).label}" if found is None else found
        raise NoAnswer(f"{name}: {why}", "")

    def begin(self, text: str, limit_s: float | None = None) -> None:
        """Do nothing: the record has the answers, or has none."""

    def run_all(
        self, commands: Mapping[str, Command], count: Callable[[], None] = lambda: None
    ) -> dict[str, Answer | NodeError]:
        """Return what a command of each node gave, or why there is none."""
        found: dict[str, Answer | NodeError] = {}
        for name, command in commands.items():
            try:
                found[name] = self.run(name, command.text)
            except NoAnswer as error:
                found[name] = error
            count()
        return found

    def close(self) -> None:
        """Do nothing: there is no connection."""


AnyProbe = Probe | RecordedProbe
"""What checks ask: nodes by name, over connections or from a record."""
