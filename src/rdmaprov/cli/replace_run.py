"""What `rdmaprov replace` does; apart from its options, so that help stays fast."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Unpack

from rdmaprov.acceptance.stage_report import USUAL
from rdmaprov.apply import summary
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.bandwidth import rates
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.passwords import provide_passwords
from rdmaprov.cli.replace_looks import (
    Looks,
    Proofs,
    difference_lines,
    differences,
    key_lines,
    machine_lines,
)
from rdmaprov.cli.replace_work import USUALLY, Asked, Work
from rdmaprov.cli.site_lock import site_lock
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.probe.fleet import FleetTargets
from rdmaprov.replace import hardware, host_key
from rdmaprov.replace.journal import Journal, journal_directory
from rdmaprov.replace.steps import (
    ACCEPT,
    APPLY,
    PROOFS,
    VALIDATE,
    Replacement,
    Step,
    Stopped,
    runs_elsewhere,
)
from rdmaprov.runs.estimate import Expected, expected, in_turn
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.choice import choose_scheduler, choose_witness_scheduler, wait_s
from rdmaprov.scheduler.service import is_foreign
from rdmaprov.surroundings import ansible_command
from rdmaprov.terminal import Line
from rdmaprov.words import duration


def show_plan(work: Work) -> ExitCode:
    """Print what would be done; return OK, or why it would stop."""
    steps: tuple[Callable[[Work], Iterator[str]], ...] = (_drain, _proofs, _witnesses)
    known = True
    targets = FleetTargets(work.ready.fleet, work.ready.given.become)
    for node in work.asked.nodes:
        key = host_key.look(targets.of(node))
        known = known and (key is None or key.is_known)
        if key is not None:
            _show(work, "host key", _key(node, key))
    code = _read(work) if known else ExitCode.UNKNOWN
    for step in steps:
        _show(work, step.__name__.lstrip("_"), step(work))
    return code


def _key(node: str, key: host_key.HostKey) -> Iterator[str]:
    if key.is_known:
        yield f"{node}: {key.fingerprint} is known"
        return
    yield from key_lines(node, key)
    yield f"{node}: you would be asked, or pass --host-key; nothing is read from it before"


def _read(work: Work) -> ExitCode:
    """Show how machines differ, and what apply would change."""
    site, nodes, ready = work.asked.site, work.asked.nodes, work.replaced
    answers = work.read(nodes)
    for node in nodes:
        if node not in answers.facts:
            why = ready.mask.text(answers.failures.get(node, "no answer"))
            _show(work, "compare", iter([f"{node}: {why}"]))
            return ExitCode.UNKNOWN
    work.facts.update(answers.facts)
    _show(work, "compare", machine_lines(work, nodes))
    _show(work, "compare", difference_lines(differences(work, nodes)))
    request = ApplyRequest(
        "plan", site, nodes, ",".join(nodes), (), {}, ready.arguments, ready.waivers
    )
    with session.start_run(request, ready) as run:
        planned = run.run_playbook("plan")
        lines = summary.plan_lines(planned, diffs=False)
        code = session.finish(run, planned, lines, ready.screen, None)
    return ExitCode.OK if code is ExitCode.PENDING else code


def _drain(work: Work) -> Iterator[str]:
    limit = duration(wait_s(work.replaced.fleet.nodes))
    found = work.scheduler.status(work.asked.nodes)
    elsewhere = runs_elsewhere(found, "replace", work.journal)
    for node, status in found.items():
        if node in elsewhere:
            yield f"{node}: {elsewhere[node].text}"
        elif is_foreign(status):
            yield f"{node}: {status.text}: stays so, and is not resumed without --take-over"
        elif status.is_empty:
            yield f"{node}: {status.text}: nothing runs there"
        else:
            yield f"{node}: {status.text}: drained, then up to {limit} for jobs to end"


def _proofs(work: Work) -> Iterator[str]:
    for node in work.asked.nodes:
        left = [step for step in PROOFS if not work.journal.has(node, step)]
        yield f"{node}: {', '.join(left) or 'none; all were passed before'}"


def _witnesses(work: Work) -> Iterator[str]:
    yield fold_names(work.witnesses()) or "none is known good and idle: it would stop at accept"


def _show(work: Work, step: str, lines: Iterator[str]) -> None:
    for line in lines:
        work.ready.screen.show(Line(f"{step}: {line}"))


_CONSOLE = (
    "Print it on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub;"
    " write NODE SHA256:..., a line for each node of a file"
)
_KEY = re.compile(r"(?:([^=\s]+)[=\s]\s*)?(SHA256:[A-Za-z0-9+/]{43})=?")


def return_nodes(
    site: Path,
    nodes: tuple[str, ...],
    host_keys: tuple[str, ...],
    yes: bool,
    witnesses: str,
    reservation: str,
    size_range: str,
    take_over: bool,
    ticket: str,
    dry_run: bool,
    wait_s: float,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Return nodes to service; return the exit code.

    Raises:
        UsageError: a node or a witness is none of the site's, or a fingerprint or size is none.
    """
    names = tuple(dict.fromkeys(nodes))
    keys = allowed_keys(host_keys, names)
    wanted = rates.parse_sizes(size_range) if size_range else ()
    asked = Asked(site, names, keys, yes, witnesses, wanted, wait_s)
    with site_lock(site, wait_s), signals_interrupt(), provide_passwords(passwords) as given:
        ready = session.check_site(site, None, given, None)
        _require_known(ready, site, names)
        replaced = [node for node in ready.fleet.nodes if node.name in names]
        journal = Journal(journal_directory(site), PROOFS)
        scheduler = choose_scheduler(replaced)
        holder = choose_witness_scheduler(scheduler, reservation)
        work = Work(asked, ready, scheduler, holder, journal)
        work.require_witnesses()
        if dry_run:
            return show_plan(work)
        ticket = ticket or str(journal.get(names[0], "ticket") or "")
        for node in names:
            journal.note(node, ticket=ticket)
        session.say_expected(ready.screen, in_turn(_expected(work)))
        stopped = _replacement(work, take_over, f" ({ticket})" if ticket else "").run()
        if stopped.code is ExitCode.OK:
            for node in names:
                hardware.keep(journal.directory, node, work.facts[node], ticket)
        return _conclude(work, stopped)


def _expected(work: Work) -> list[Expected | None]:
    """Return how long each step will take that is left; no run is kept of replace itself."""
    site, names = work.asked.site, work.asked.nodes
    left = [step for step in PROOFS if any(not work.journal.has(name, step) for name in names)]
    count = len(names)
    return [
        expected(site, step, count + USUALLY, stages=USUAL)
        if step == ACCEPT
        else expected(site, step, count)
        for step in left
    ]


def _replacement(work: Work, take_over: bool, label: str) -> Replacement:
    looks, proofs = Looks(work), Proofs(work)
    return Replacement(
        work.asked.nodes,
        (Step("host key", looks.host_key), Step("compare", looks.compare)),
        (Step(APPLY, proofs.apply), Step(VALIDATE, proofs.validate), Step(ACCEPT, proofs.accept)),
        work.scheduler,
        work.journal,
        wait_s(work.replaced.fleet.nodes),
        take_over,
        work.tell,
        label=label,
    )


def _conclude(work: Work, stopped: Stopped) -> ExitCode:
    """Show how it ended; return the exit code."""
    names = fold_names(work.asked.nodes)
    if stopped.code is ExitCode.OK:
        work.ready.screen.show(Line(f"{names}: in service", "green"))
        return stopped.code
    style = "red" if stopped.code is ExitCode.FAILED else "yellow"
    where = f"{names}: stopped at {stopped.step}: {stopped.text}"
    work.ready.screen.show(Line(where, style))
    again = f"When that is solved, run the same command again: it resumes at {stopped.step}"
    work.ready.screen.show(Line(again))
    return stopped.code


def _require_known(ready: session.Prepared, site: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in ready.nodes:
            listed = ansible_command("ansible-inventory", "-i", site, "--graph")
            raise UsageError(f"{name} is no node of {site}", f"List them: {listed}")


def allowed_keys(texts: tuple[str, ...], nodes: tuple[str, ...]) -> dict[str, str]:
    """Return the host key that the user allows for each node, as a fingerprint.

    A file (`@FILE`) has a node and its fingerprint on each line, and may have other nodes, too.

    Raises:
        UsageError: one is no fingerprint, or does not say which of several nodes it is of.
    """
    keys: dict[str, str] = {}
    for text in texts:
        if text.startswith("@"):
            keys |= _keys_in(Path(text[1:]), nodes)
            continue
        found = _KEY.fullmatch(text)
        if found is None:
            raise UsageError(f"--host-key {text} is no SHA256 fingerprint", _CONSOLE)
        name = found[1] or (nodes[0] if len(nodes) == 1 else "")
        if name not in nodes:
            which = f"{name} is not among them" if name else "it does not say of which"
            message = f"--host-key {text}: there are several nodes, and {which}"
            if len(nodes) == 1:
                message = f"--host-key {text}: the node is {nodes[0]}"
            raise UsageError(message, f"Write --host-key {nodes[0]}={found[2]}")
        keys[name] = found[2]
    return keys


def _keys_in(file: Path, nodes: tuple[str, ...]) -> dict[str, str]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--host-key @{file}: {error}", "Name a file that can be read") from error
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if text := line.partition("#")[0].strip():
            found = _KEY.fullmatch(text)
            if found is None or not found[1] or keys.get(found[1], found[2]) != found[2]:
                wrong = "not a node and its fingerprint, or another one than above"
                raise UsageError(f"--host-key {file}:{number}: {text}: {wrong}", _CONSOLE)
            keys[found[1]] = found[2]
    return {node: key for node, key in keys.items() if node in nodes}
