"""What the probes need of testinfra's Host."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rdmaprov.facts.errors import CouldNotTell


class Result(Protocol):
    """What a command did; testinfra's CommandResult is one."""

    @property
    def rc(self) -> int:
        """Return the exit status."""

    @property
    def stdout(self) -> str:
        """Return what it printed."""

    @property
    def stderr(self) -> str:
        """Return what it printed as errors."""


class Host(Protocol):
    """What the probes need of testinfra's Host."""

    def run(self, command: str, *args: str, **options: Any) -> Result:  # noqa: ANN401
        """Return what a shell's command did; `options` are those of a backend."""


@dataclass(frozen=True)
class AnsweredHost:
    """A host whose answers are here already."""

    # by command, its result, or the exception that says why there is none
    results: Mapping[str, Result | Exception]

    def run(self, command: str, *_: str, **_options: object) -> Result:
        """Return a command's result; raise CouldNotTell if there is none."""
        result = self.results[command]
        if isinstance(result, Exception):
            raise CouldNotTell(f"no answer: {result}")
        return result
