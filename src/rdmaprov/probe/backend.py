"""testinfra's hosts over the probe."""

from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult

from rdmaprov.probe.recorded import AnyProbe


class ProbeBackend(BaseBackend):  # type: ignore[misc] # testinfra has no types
    """Runs a host's commands by the probe.

    `host.run(..., fresh=True)` runs a command now, whatever was fetched before,
    `time_limit_s=N` gives it a limit of its own, and `everywhere=True` begins it on all nodes as
    soon as one is asked; other backends pass over them.
    """

    NAME = "rdmaprov"

    def __init__(
        self, probe: AnyProbe, name: str, sudo: bool = False, sudo_user: str | None = None
    ) -> None:
        super().__init__(name, sudo, sudo_user)
        self._probe = probe

    def run(
        self,
        command: str,
        *args: str,
        fresh: bool = False,
        time_limit_s: float | None = None,
        everywhere: bool = False,
        **_kwargs: Any,  # noqa: ANN401 - testinfra's interface
    ) -> CommandResult:
        """Return a command's result.

        Raises:
            NodeError: there is none; the message says why.
        """
        text = self.get_command(command, *args)
        if everywhere:
            self._probe.begin(text, time_limit_s)
        answer = self._probe.run(self.hostname, text, fresh, time_limit_s)
        return self.result(answer.rc, text.encode(), answer.out, answer.err)

    def get_pytest_id(self) -> str:
        """Return the node's name."""
        return str(self.hostname)

    def get_encoding(self) -> str:
        """Return what the agent writes, whatever the node's locale."""
        return "utf-8"

    def encode(self, data: str) -> bytes:
        """Return the bytes that a command wrote."""
        return data.encode("utf-8", "surrogateescape")
