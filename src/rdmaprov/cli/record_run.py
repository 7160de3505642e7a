"""What `rdmaprov record` does; apart from its options, so that help stays fast."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from rdmaprov.boundary import OddAnswer
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.verbosity import meter, verbosity
from rdmaprov.drift.arguments import Arguments, NotCertain
from rdmaprov.drift.record import read_node
from rdmaprov.errors import RdmaprovError, UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Fleet
from rdmaprov.probe.connection import Answer
from rdmaprov.probe.fleet import FleetTargets, fleet_targets
from rdmaprov.probe.recorded import RecordingProbe
from rdmaprov.record.anonymous import Pseudonyms
from rdmaprov.record.document import new_document, parse_record, to_bytes, variables_of
from rdmaprov.record.scrub import Scrub
from rdmaprov.runs.files import not_written, write_bytes_whole
from rdmaprov.runs.masks import Mask
from rdmaprov.validate import run as suite
from rdmaprov.verbosity import Verbosity
from rdmaprov.words import quantity


class NotRecorded(RdmaprovError):
    """A node's record needs what only a run of Ansible knows."""


def record_node(
    site: Path, limit: str, output: Path | None, anonymous: bool, passwords: PasswordOptions
) -> int:
    """Write the record of a node; return the exit code.

    Raises:
        UsageError: the limit matches several nodes.
        NotRecorded: only Ansible knows the arguments of a role.
        UnreachableError: the node gave no answer that can be used.
    """
    with session.prepare(site, limit, None, passwords) as ready:
        if len(ready.nodes) > 1:
            raise UsageError(
                f"--limit {limit} matches {quantity(len(ready.nodes), 'node')}; a record has one",
                f"Name one of them: {', '.join(ready.nodes[:3])}",
            )
        document = _read(site, ready.fleet, ready.given.become)
        mask = ready.mask
    path = output or Path(f"{ready.nodes[0]}.record.json.gz")
    data = _finished(document, mask, anonymous, compress=path.suffix != ".json")
    try:
        write_bytes_whole(path, [data])
    except OSError as error:
        raise not_written({path: error}, "run the same command again.") from error
    if verbosity() is not Verbosity.QUIET:
        click.echo(_summary(path, document, len(data)))
    return ExitCode.OK


def _read(site: Path, fleet: Fleet, become_password: str) -> dict[str, Any]:
    """Return the record of a fleet's one node, with all secrets."""
    node = fleet.nodes[0]
    try:
        arguments = Arguments(fleet, ()).of(node.name)
    except NotCertain as error:
        raise NotRecorded(
            f"{node.name}: {error}", "Write values that no run of Ansible is needed for."
        ) from error
    with meter(f"recording {node.name}"):
        target = FleetTargets(fleet, become_password).of(node.name)
        taken = datetime.now(UTC).isoformat(timespec="seconds")
        readings = read_node(target, arguments)
        answers = _ask_suite(site, fleet, become_password)
    try:
        return new_document(node.name, taken, variables_of(node), readings, answers)
    except OddAnswer as error:
        raise _odd(node.name, error) from error


def _ask_suite(site: Path, fleet: Fleet, become_password: str) -> dict[str, Answer | str]:
    probe = RecordingProbe(fleet_targets(fleet, become_password))
    suite.read(site, fleet, probe)
    if probe.lost is not None:
        raise probe.lost
    return probe.answers


def _finished(document: dict[str, Any], mask: Mask, anonymous: bool, *, compress: bool) -> bytes:
    """Return the file of a record, without secrets, that `plan` and `validate` take."""
    name = document["node"]
    clean = Scrub(mask).data(document)
    if anonymous:
        clean = {**Pseudonyms(clean).data(clean), "anonymous": True}
        if clean["node"] == name:  # a word that its texts have, too
            clean["node"] = "node-1"
    data = to_bytes(clean, compress=compress)
    try:
        parse_record(data)
    except OddAnswer as error:
        raise _odd(name, error) from error
    return data


def _odd(name: str, error: OddAnswer) -> UnreachableError:
    return UnreachableError(f"{name}: no record: {error}", "Check the node's Python and programs.")


def _summary(path: Path, document: dict[str, Any], size: int) -> str:
    files = sum(text is not None for text in document["files"].values())
    commands = len(document["commands"]) + len(document["checks"])
    read = f"{quantity(files, 'file')}, {quantity(commands, 'command')}"
    return f"wrote {path}: {size / 1000:,.0f} kB, {read}; read it before you pass it on"
