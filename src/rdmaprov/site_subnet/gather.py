"""Read a fabric from the first host that has access, once for each subnet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rdmaprov.errors import UnreachableError
from rdmaprov.finding.finding import Finding
from rdmaprov.site_subnet.hosts import FabricHost
from rdmaprov.site_subnet.tool import ToolOutput, failure
from rdmaprov.subnet.collect import COMMANDS, collect
from rdmaprov.subnet.directory import COUNTERS, read_directory
from rdmaprov.subnet.judge import Assessment, judge
from rdmaprov.subnet.problem import unknown

# Our choice. dump_fts took 16 s on a busy machine for 512 nodes with 8 rails.
TOOL_LIMIT_S = 300.0
# ibqueryerrors of infiniband-diags 44 crashes now and then while a manager sweeps the fabric.
_MOST_REPEATS = 2
# What it would tell is judged only where the site names managers, and is unknown there without it.
_OPTIONAL = ("saquery",)
_FILES = {words[0]: name for name, words in COMMANDS.items()} | {"perfquery": COUNTERS}


class NoAccess(UnreachableError):
    """A host cannot read the fabric."""


@dataclass
class Gathered:
    """What was read."""

    reader: FabricHost | None = None  # the host that was asked; None if none has access
    # by the device that was asked through, empty for the tools' own choice
    subnets: dict[str, Assessment] = field(default_factory=dict)
    # what no tool told, and which hosts have no access
    not_read: list[Finding] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        """Return the name of the host that was asked, empty for none."""
        return self.reader.name if self.reader else ""


def gather(
    hosts: Sequence[FabricHost],
    devices: Sequence[str],
    directory: Path,
    wait: Callable[[], None] | None = None,
    limit_s: float = TOOL_LIMIT_S,
) -> Gathered:
    """Return the judged subnets of the first host that has access to all of them.

    Args:
        hosts: in the order in which they are tried.
        devices: RDMA devices of the host, one on each subnet; none for the tools' own choice.
        directory: absent or empty; gets the texts, in a directory for each device if named.
        wait: between two readings of the counters; None for one reading.
        limit_s: seconds that one tool may take.
    """
    gathered = Gathered()
    refused = []
    for host in hosts:
        try:
            _gather_from(host, devices, directory, wait, limit_s, gathered)
        except NoAccess as error:
            refused.append(unknown(host.name, error.message))
            continue
        gathered.reader = host
        return gathered
    gathered.not_read = refused
    return gathered


def _gather_from(
    host: FabricHost,
    devices: Sequence[str],
    directory: Path,
    wait: Callable[[], None] | None,
    limit_s: float,
    gathered: Gathered,
) -> None:
    for number, device in enumerate(devices or ("",)):
        calls = _Calls(host, limit_s, gathered.log)
        place = directory / device if len(devices) > 1 else directory
        try:
            collect(place, calls.run, ("-C", device) if device else (), wait)
        except NoAccess as error:
            if not number:
                raise
            gathered.not_read.append(unknown(device, f"{device}: {error.message}"))
            continue
        subnet = read_directory(place)
        failed = {_FILES[tool] for tool in calls.failed}
        subnet.not_verified = [
            each for each in subnet.not_verified if each.name.split("/")[0] not in failed
        ]
        assessment = judge(subnet)
        if _switches(assessment) not in map(_switches, gathered.subnets.values()):
            gathered.subnets[device] = assessment
        gathered.not_read += calls.problems()


def _switches(assessment: Assessment) -> frozenset[int]:
    return frozenset(end.guid for end in assessment.fabric.switches)


class _Calls:
    """Calls tools on a host, and notes which of them did not tell all."""

    def __init__(self, host: FabricHost, limit_s: float, log: list[str]) -> None:
        self._host = host
        self._limit_s = limit_s
        self._log = log
        self.failed: dict[str, list[str]] = {}

    def run(self, words: Sequence[str]) -> str:
        """Return what a tool printed.

        Raises:
            NoAccess: without the switches and links there is nothing to judge.
        """
        tool = words[0]
        output = self._ask(words)
        for _ in range(_MOST_REPEATS):
            if not (output.has_crashed or output.is_partial):
                break
            output = self._ask(words)
        known = tool in _OPTIONAL or _is_verdict(tool, output)
        why = "" if known else failure(tool, self._host.name, output)
        if why and tool == "ibnetdiscover":
            raise NoAccess(why, "Read from another host: --from NODE, or --here")
        if why:
            self.failed.setdefault(tool, []).append(why)
        # Without the routes that a switch did not tell, others would look lost.
        return "" if output.is_partial else output.text

    def _ask(self, words: Sequence[str]) -> ToolOutput:
        output = self._host.run(words, self._limit_s)
        name = f"{self._host.name}: {words[0]}"
        self._log += [f"{name}: {line}" for line in output.errors.splitlines()]
        return output

    def problems(self) -> list[Finding]:
        """Return the tools that failed, each once."""
        return [
            unknown(tool, whys[0] + (f", and {len(whys) - 1} more times" if whys[1:] else ""))
            for tool, whys in self.failed.items()
        ]


def _is_verdict(tool: str, output: ToolOutput) -> bool:
    """Return whether an exit code is what the tool found out: no manager answers, or errors."""
    if tool == "sminfo":
        return output.rc is not None and "failed: query" in output.text
    return tool == "ibqueryerrors" and output.rc == 1 and "## Summary" in output.text
