"""Completion of what verbs take; nothing is read or imported before a shell asks."""

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from rdmaprov.resources import data_dir

_MOST_RUNS = 20  # that are read for the names of nodes: a shell waits


def matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin so."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def last_matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the lists of names, with commas between them, that begin so."""
    before, comma, last = incomplete.rpartition(",")
    sign = last[: len(last) - len(last.lstrip("!&"))]  # of Ansible's patterns
    return matching((f"{before}{comma}{sign}{name}" for name in names), incomplete)


def role_names() -> list[str]:
    """Return the roles that a playbook runs by name."""
    return sorted(
        path.parent.parent.name
        for path in data_dir("roles").glob("*/tasks/main.yml")
        if (data_dir("plugins") / "modules" / f"{path.parent.parent.name}.py").is_file()
    )


def complete_roles(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the roles that begin so, behind those that are named already."""
    return last_matching(role_names(), incomplete)


def complete_limit(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the hosts and groups of the site that begin so; nothing of the site is run."""
    from rdmaprov.inventory.host_names import known_names

    # The option has no value yet, so click has not made arguments of the words before it.
    site = Path(context.args[0]) if context.args else context.params.get("site")
    if site is None or not site.is_dir():
        return []
    return last_matching(sorted({*_newest_nodes(site), *known_names(site)}), incomplete)


def _newest_nodes(site: Path) -> list[str]:
    """Return the nodes of the newest run of a whole site; of its newest run, if all had a limit."""
    from rdmaprov.inventory.names import is_safe
    from rdmaprov.report.read import newest_first
    from rdmaprov.runs.directory import runs_directory
    from rdmaprov.runs.results import RESULTS, results_of

    newest: list[str] = []
    for run in newest_first(runs_directory())[:_MOST_RUNS]:
        data = results_of(run / RESULTS, site)
        if data is None:
            continue
        names = [name for name in data["nodes"] if is_safe(name)]
        newest = newest or names
        if data.get("limit") is None and data.get("hosts") is None:
            return names
    return newest


def complete_run(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the runs whose names begin so, the newest first; directories behind a slash."""
    from rdmaprov.report.read import newest_first
    from rdmaprov.runs.directory import runs_directory

    if "/" in incomplete:
        return [CompletionItem(incomplete, type="dir")]
    return matching((path.name for path in newest_first(runs_directory())), incomplete)
