"""The nodes' testinfra hosts, by name."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from testinfra.backend.base import CommandResult
from testinfra.host import Host

from rdmaprov.probe.backend import ProbeBackend
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.recorded import AnyProbe

# Foreign connections: each command is a process of its own on the controller.
_AT_ONCE = 16


class Hosts(Mapping[str, Host]):
    """Hosts by the names of their nodes; `make`: returns the host of a node, once for each."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], Host]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, Host] = {}
        # What a check of the fleet compares: setting, node, device, kind, value; for its report.
        self.compared: list[tuple[str, str, str, str, str]] = []

    def __getitem__(self, name: str) -> Host:
        """Return a node's host."""
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the nodes' names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)

    def run(
        self, commands: Mapping[str, str], time_limit_s: float | None = None
    ) -> dict[str, CommandResult | Exception]:
        """Return what a command of each node gave, run now and on all of them at the same time.

        Args:
            commands: the command, as the shell reads it, by the node's name.
            time_limit_s: for each of them; that of all commands if there is none.

        Returns:
            By name, the result, or the exception that says why there is none.
        """

        def one(name: str) -> CommandResult | Exception:
            try:
                return self[name].run(commands[name], fresh=True, time_limit_s=time_limit_s)
            except Exception as error:
                return error

        with ThreadPoolExecutor(max_workers=_AT_ONCE) as threads:
            return dict(zip(commands, threads.map(one, commands), strict=True))


class ProbedHosts(Hosts):
    """Hosts over the probe."""

    def __init__(self, names: tuple[str, ...], probe: AnyProbe, limit_s: float) -> None:
        self._probe = probe
        self._limit_s = limit_s
        super().__init__(names, self._host)

    def _host(self, name: str) -> Host:
        backend = ProbeBackend(self._probe, name)
        host = Host(backend)
        backend.set_host(host)
        return host

    def run(
        self, commands: Mapping[str, str], time_limit_s: float | None = None
    ) -> dict[str, CommandResult | Exception]:
        """Return what a command of each node gave; see Hosts.run."""
        limit = self._limit_s if time_limit_s is None else time_limit_s
        found = self._probe.run_all({name: Command(text, limit) for name, text in commands.items()})
        return {name: self._result(name, commands[name], one) for name, one in found.items()}

    def _result(self, name: str, text: str, found: Answer | Exception) -> CommandResult | Exception:
        if isinstance(found, Exception):
            return found
        return self[name].backend.result(found.rc, text.encode(), found.out, found.err)
