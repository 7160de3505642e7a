"""What `rdmaprov revert` does; apart from its options, so that help stays fast."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Unpack

from rdmaprov.apply import summary
from rdmaprov.apply.results import NodeState, Results
from rdmaprov.apply.run import ApplyRequest
from rdmaprov.cli import session
from rdmaprov.cli.apply_agreed import Agreement, is_interactive
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.site_lock import node_lock_variables, site_lock
from rdmaprov.errors import UsageError
from rdmaprov.problem import printable
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.groups import fold_names
from rdmaprov.runs.results import RESULTS, NotRead, load_results
from rdmaprov.terminal import Line

_NAME = re.compile(r"\d{8}-[0-9A-Za-z.-]{1,90}")  # as nodes keep it
_UNTOUCHED = ("unchanged", "pending", "not_begun")


def take_back(
    site: Path,
    run: str,
    limit: str | None,
    roles: str,
    only_shows: bool,
    force_busy: bool,
    yes: bool,
    wait_s: float,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Take back a run on the nodes of a site, or show what that would be; return the exit code."""
    named = session.known_roles(roles)
    name, made = _run_of(run, site)
    with site_lock(site, wait_s), session.prepare(site, limit, json_file, passwords) as ready:
        if made is not None:
            ready = ready.only(made)
            if not ready.nodes:
                raise UsageError(
                    f"{name} was on none of these nodes", "Pass another --limit or RUN"
                )
        asks = not (yes or only_shows) and is_interactive(ready.screen)
        agreed = Agreement(ready, "never", None, asks, name)
        request = ApplyRequest(
            *("revert", site, ready.nodes, limit, named, {}, ready.arguments, ready.waivers),
            is_part=made is not None,
            reverts=name,
        )
        with session.start_run(request, ready) as current:
            current.add_variables({"revert_run": name, "revert_made": made or {}})
            current.add_variables({"apply_force_busy": True} if force_busy else {})
            current.add_variables(node_lock_variables(current.path, wait_s))
            if only_shows:
                found = agreed.show(current)
                lines = [*agreed.lines(found), *_unknown_lines(found)]
                return session.finish(current, found, lines, ready.screen, json_file)
            if (settled := agreed.settle(current)) is not None:
                lines = agreed.lines(settled)
                return session.finish(current, settled, lines, ready.screen, json_file)
            results = current.run_playbook("revert")
            lines = [*summary.apply_lines(results), *_unknown_lines(results)]
            return session.finish(current, results, lines, ready.screen, json_file)


def _run_of(run: str, site: Path) -> tuple[str, Mapping[str, str] | None]:
    """Return the name of a run, and by node whether it changed the node: yes, no or unknown.

    A run that was killed has no results, and one of another machine is not here: None then, as only
    the nodes know what they keep of it.

    Raises:
        UsageError: it is no run of apply on this site.
    """
    path = next((each for each in (Path(run), runs_directory() / run) if each.is_dir()), Path(run))
    name = path.resolve().name
    if not _NAME.fullmatch(name):
        hint = f"Pass the name of a directory in {runs_directory()}/ that ends with -apply"
        raise UsageError(f"{printable(run)} is not the name of a run", hint)
    try:
        data = load_results(path / RESULTS)
        is_of_site = Path(data["site"]).resolve() == site.resolve()
        made = {node: _made(own) for node, own in data["nodes"].items()}
    except FileNotFoundError:
        return name, None
    except (AttributeError, NotRead, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            printable(f"{name}: its results cannot be read: {error}"), "Pass a run of apply"
        ) from error
    if data.get("verb") != "apply" or not is_of_site:
        what = f"of {data.get('verb')} on {data['site']}"
        raise UsageError(f"{name} is a run {printable(what)}", f"Pass a run of apply on {site}")
    return name, made


def _made(own: Mapping[str, Any]) -> str:
    if own.get("state") in _UNTOUCHED:
        return "no"
    return "yes" if own.get("changes") else "unknown"


def _unknown_lines(results: Results) -> list[Line]:
    """Return what to say of nodes that keep nothing of a run nobody has results of."""
    names = [node.name for node in results.in_state(NodeState.NOT_STARTED)]
    if not names or results.interrupted:
        return []
    text = "unknown: nothing is kept there of this run, and no results say whether it changed them"
    return [Line(f"{fold_names(names)}: {text}", "yellow")]
