"""The whole gate on a made-up fleet."""

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from tests.madeup.faults import FaultKind
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import NOISE, FleetShape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance import gate
from rdmaprov.acceptance.ledger import KeptProofs
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.acceptance.stages import pairs
from rdmaprov.acceptance.stages.resume import Resumed
from rdmaprov.certificate.statement import node_digest
from rdmaprov.cli.accept_run import document
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head
from rdmaprov.runs.masks import Mask


@dataclass(frozen=True)
class Acceptance:
    """A gate's result, and the fleet that it was about.

    Args:
        fleet: after it.
        result: what the gate found.
        rounds: tasks that ranks performed; those side by side are one.
        sessions: how often ranks were started.
        said: what was said when, in seconds since the ranks of its stage began to start.
    """

    fleet: MadeUpFleet
    result: GateResult
    rounds: int
    sessions: int
    said: list[tuple[float, str]]


def accept(
    shape: FleetShape,
    kind: FaultKind | None = None,
    seed: int = 0,
    noise: float = NOISE,
    *,
    on_stage: Callable[[str], None] = lambda _line: None,
    known: Resumed | None = None,
    keep: Callable[[str, str], Path | None] | None = None,
    **options: Any,
) -> Acceptance:
    """Run the gate with NCCL on a made-up fleet.

    perftest's time passes, and what it would show is left out: bench/paths.py has that alone.
    """
    return accept_nodes(
        MadeUpFleet(shape, kind, seed, noise), on_stage=on_stage, known=known, keep=keep, **options
    )


@contextmanager
def gate_on(fleet: MadeUpFleet) -> Iterator[MadeUpRunner]:
    """Have the gate start its ranks on a fleet, and take the fleet's clock for its own."""
    runner = MadeUpRunner(fleet)
    with (
        mock.patch.object(gate, "Launcher", return_value=runner),
        mock.patch.object(readings, "time", mock.Mock(time=fleet.now_s)),
    ):
        yield runner


def accept_nodes(
    fleet: MadeUpFleet,
    names: Collection[str] | None = None,
    *,
    on_stage: Callable[[str], None] = lambda _line: None,
    known: Resumed | None = None,
    keep: Callable[[str, str], Path | None] | None = None,
    proofs: KeptProofs | None = None,
    **options: Any,
) -> Acceptance:
    """Run the gate on some nodes of a fleet, whose clock runs on.

    Args:
        fleet: whose nodes answer.
        names: of the nodes; None for all.
        on_stage: as of `accept`.
        known: as of `accept`.
        keep: as of `accept`.
        proofs: what kept runs say of nodes.
        options: the gate's.
    """
    nodes = [each for each in site_nodes(fleet.shape) if names is None or each.name in names]
    measure = pairs.measure_site_paths

    def measure_site_paths(*given: Any) -> Any:
        fleet.pass_time(lambda clock: clock.perftest_s)
        return measure(*given)

    with tempfile.TemporaryDirectory() as place:
        kept = Path(place)

        def write(name: str, text: str) -> Path:
            path = kept / name.replace("/", "_")
            path.write_text(text)
            return path

        said: list[tuple[float, str]] = []

        def say(text: str) -> None:
            said.append((fleet.since_ranks_s(), text))
            on_stage(text)

        def end_stage(result: GateResult) -> None:
            texts = "\n".join(each.text for each in result.stages[-1].findings)
            said.append((fleet.since_ranks_s(), texts))
            fleet.end_stage(result.stages[-1].name)

        made = gate.Gate(
            nodes=tuple(nodes),
            connection=MadeUpNodes(fleet),
            options=gate.Options(**options),
            keep=keep or write,
            on_stage=say,
            known=known or Resumed(),
            on_report=end_stage,
            proofs=proofs or {},
            digests={each.name: node_digest(each, lambda data: data) for each in nodes},
        )
        with (
            gate_on(fleet) as runner,
            mock.patch.object(pairs, "measure_site_paths", measure_site_paths),
        ):
            result = made.run()
            fleet.end_stage("end")
    return Acceptance(fleet, result, runner.tasks, runner.sessions, said)


def keep_run(
    shape: FleetShape, kind: FaultKind | None = None, seed: int = 0, site: Path = Path("site")
) -> tuple[str, Acceptance]:
    """Return the name of the run that an acceptance of a made-up fleet leaves, and its result."""
    with RunDirectory("accept", Mask(()), log="ranks.jsonl") as directory:
        head = Head("accept", site, None, datetime.now(UTC))
        done = accept(shape, kind, seed, keep=directory.keep_log, stages=USUAL)
        directory.write_results(document(head, datetime.now(UTC), done.result))
    return directory.path.name, done
