"""`--metrics FILE` of every verb that makes or reads runs; imports no work."""

from __future__ import annotations

from pathlib import Path

import click

_KEY = "rdmaprov.metrics"


def _note(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    if file is not None:
        context.meta[_KEY] = file


metrics_option = click.option(
    "--metrics",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    expose_value=False,
    callback=_note,
    help="Also write the metrics of SITE to this file, for node_exporter's textfile collector.",
)


def metrics_file() -> Path | None:
    """Return the file that the command line asks for."""
    context = click.get_current_context(silent=True)
    found: Path | None = context.meta.get(_KEY) if context else None
    return found


def write_run_metrics(run: Path, file: Path) -> str:
    """Write the metrics of the site of a run; return the line that says so.

    Args:
        run: the directory of a run, whose results are written.
        file: of the option.

    Raises:
        OSError: it cannot be written.

    """
    from rdmaprov.history.answer import read_history
    from rdmaprov.history.index import Index
    from rdmaprov.history.metrics import write_metrics

    with Index(run.parent).open() as connection:
        row = connection.execute("SELECT site FROM run WHERE name = ?", (run.name,)).fetchone()
    if row is None or not row[0]:
        return f"metrics: not written: the results of {run} cannot be read"
    write_metrics(read_history(Path(row[0]), run.parent), file)
    return f"metrics: {file}"
