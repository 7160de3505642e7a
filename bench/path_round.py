"""A round of path tests against perftest by hand: the same commands, side by side, on real nodes.

    python bench/path_round.py SITE [--limit PATTERN] [--rounds 5]

By hand is what a careful person's script does: it keeps one connection to each node, starts all
servers, waits until each says that it waits for its client, then starts all clients at once. The
two take turns, so that what else the machine does meets both. The difference is what rdmaprov's
schedule costs: its steps, their polls, and the check of what came back.
"""

from __future__ import annotations

import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import click

from rdmaprov.acceptance.ask import nodes as gate_nodes
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths.perftests import open_path_tests
from rdmaprov.acceptance.paths.plan import PathOptions, plan_paths
from rdmaprov.acceptance.paths.survey import NodeSurvey, software_settings, survey_nodes
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages.pair_paths import message_bytes
from rdmaprov.acceptance.stages.preflight import run_preflight
from rdmaprov.inventory import Fleet, load_site
from rdmaprov.perftest.model import End, PathTest
from rdmaprov.perftest.tool import options
from rdmaprov.perftest.tool.options import Settings
from rdmaprov.probe.ansible_targets import Targets
from rdmaprov.probe.target import Target

_WAITS = "Waiting for client"
_FIRST_PORT = 18700
_DURATION_S = 3


class Hand:
    """Perftests as a person starts them, over a connection to each node that stays.

    Args:
        targets: the nodes.
        surveys: what each node has for these tests.
        settings: of perftest.
        directory: for the sockets of the connections.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        surveys: Mapping[str, NodeSurvey],
        settings: Settings,
        directory: Path,
    ) -> None:
        self._targets = targets
        self._surveys = surveys
        self._settings = settings
        self._shared = ("-o", "ControlMaster=auto", "-o", f"ControlPath={directory}/%n-%p")
        self._ports = count(_FIRST_PORT)

    def run(self, tests: Sequence[PathTest]) -> None:
        """Run tests at once.

        Raises:
            ClickException: one of them failed.
        """
        pairs = [(test, str(next(self._ports))) for test in tests]
        servers = [self._start(test, test.receiver, port) for test, port in pairs]
        for server in servers:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            if not any(_WAITS in line for line in server.stdout):
                raise click.ClickException("a server by hand does not wait for its client")
        addresses = [self._surveys[test.receiver.node].address for test, _ in pairs]
        clients = [
            self._start(test, test.sender, port, address)
            for (test, port), address in zip(pairs, addresses, strict=True)
        ]
        for process in (*clients, *servers):
            said, _ = process.communicate()
            if process.returncode:
                raise click.ClickException(f"a perftest by hand failed: {said}")

    def connect(self, names: Sequence[str]) -> None:
        """Open the connections."""
        for name in names:
            subprocess.run(self._ssh(name, "true"), stdin=subprocess.DEVNULL, check=True)

    def close(self, names: Sequence[str]) -> None:
        """End the connections."""
        for name in names:
            argv = self._ssh(name, "")[:-1]
            end = [*argv[:1], "-O", "exit", *argv[1:]]
            subprocess.run(end, stderr=subprocess.DEVNULL, check=False)

    def _ssh(self, name: str, text: str) -> list[str]:
        program, *rest = self._targets[name].command(text)
        return [program, *self._shared, "-o", "ControlPersist=yes", *rest]

    def _start(self, test: PathTest, end: End, port: str, *address: str) -> subprocess.Popen[str]:
        survey = self._surveys[end.node]
        able = survey.abilities[options.program(test)]
        argv = options.words(test, end.memory, survey.ports[end.rail], port, self._settings, able)
        assert argv is not None  # noqa: S101 - the survey has what host memory needs
        text = shlex.join(["stdbuf", "-oL", *argv, *address])
        return subprocess.Popen(
            self._ssh(end.node, text),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@contextmanager
def by_hand(fleet: Fleet, surveys: Mapping[str, NodeSurvey], settings: Settings) -> Iterator[Hand]:
    """Provide tests by hand; their connections end with the context."""
    names = [node.name for node in fleet.nodes]
    targets = Targets()
    with tempfile.TemporaryDirectory() as directory:
        found = {name: targets.of(name, fleet.variables(name)) for name in names}
        hand = Hand(found, surveys, settings, Path(directory))
        try:
            hand.connect(names)
            yield hand
        finally:
            hand.close(names)


def seconds_of(act: Callable[[], object]) -> float:
    """Return how long something takes."""
    begin = time.monotonic()
    act()
    return time.monotonic() - begin


def find_site(connection: gate_nodes.Nodes, fleet: Fleet) -> GateSite:
    """Return the nodes of a fleet as the stage `pairs` has them.

    Raises:
        ClickException: the preflight found something.
    """
    result = GateResult(tuple(node.name for node in fleet.nodes))
    report, site = run_preflight(result, connection, fleet.nodes, Options("gloo"))
    if site is None:
        raise click.ClickException("; ".join(each.what for each in report.findings))
    return site


@click.command(help="Compare a round of path tests with perftest by hand.")
@click.argument("site", type=click.Path(exists=True, path_type=Path))
@click.option("--limit", default=None, help="Nodes to test, as an Ansible pattern.")
@click.option("--rounds", default=5, show_default=True, help="Rounds of each.")
def main(site: Path, limit: str | None, rounds: int) -> None:
    """Print the seconds of each round, and what rdmaprov adds."""
    fleet = load_site(site, limit)
    with gate_nodes.connect(fleet) as connection:
        there = find_site(connection, fleet)
        surveys = survey_nodes(connection, there)
        is_software = any(each.is_software for each in surveys.values())
        asked = PathOptions(is_software=is_software)
        settings = Settings(_DURATION_S)
        settings = software_settings(settings) if is_software else settings
        plan = plan_paths(there.nodes, asked)
        rails = plan.rails[:1] if is_software else plan.rails
        tests = plan.few[0].tests(rails, measures="bandwidth", size=message_bytes(asked))
        click.echo(f"{len(plan.names)} nodes, {len(tests)} tests at once")
        own, hand = [], []
        with (
            open_path_tests(connection, surveys, settings) as measurer,
            by_hand(fleet, surveys, settings) as perftests,
        ):
            for number in range(rounds):
                own.append(seconds_of(lambda: measurer.measure(tests)))
                hand.append(seconds_of(lambda: perftests.run(tests)))
                click.echo(f"round {number}: rdmaprov {own[-1]:.2f} s, by hand {hand[-1]:.2f} s")
    more = statistics.median(own) - statistics.median(hand)
    click.echo(
        f"median: rdmaprov {statistics.median(own):.2f} s, by hand {statistics.median(hand):.2f} s;"
        f" rdmaprov takes {more:+.2f} s a round"
    )


if __name__ == "__main__":
    main()
