"""`--runs`, `--metrics` and `--notify` of every verb that makes or reads runs; imports no work."""

import functools
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rdmaprov.cli.options import keep_variable

if TYPE_CHECKING:
    from rdmaprov.history.answer import History

Missed = dict[Path, OSError]
_PENDING = "rdmaprov.pending"
_MOST_SECRET = 1 << 16
_KEYS = {name: f"rdmaprov.{name}" for name in ("metrics", "notify", "notify_secret")}


def _note(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None:
        context.meta[_KEYS[str(parameter.name)]] = value


def _note_target(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    # No message has the value: what is no URL may be a URL with its secrets, written wrongly.
    if value is not None and value.lower().startswith(("http://", "https://")):
        from rdmaprov.history.deliver import url_problem

        if why := url_problem(value):
            raise click.BadParameter(f"the URL {why}")
    elif value is not None and not Path(value).is_file():
        raise click.BadParameter("it is neither an http or https URL nor a program that exists")
    _note(context, parameter, value)


def _note_secret(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    if file is None:
        return
    target = context.meta.get(_KEYS["notify"], "")
    if not target.lower().startswith(("http://", "https://")):
        raise click.BadParameter("needs --notify with a URL")
    if not _secret(file):
        raise click.BadParameter(f"{file} is empty")
    _note(context, parameter, file)


def _secret(file: Path) -> bytes:
    from rdmaprov.runs.files import read_whole

    try:
        return read_whole(file, _MOST_SECRET).strip()
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}") from error


runs_option = click.option(
    "--runs",
    metavar="DIR",
    type=click.Path(file_okay=False),
    envvar="RDMAPROV_RUNS",
    expose_value=False,
    callback=keep_variable,
    help="Keep runs in this directory, or read them there.  [default: runs]",
)


def publish_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --runs and the options that tell others of the site, which is done at the verb's end.

    A receiver can take its time, and another one may be gone: by then the verdict is shown, all
    files are written, and no lock is held.
    """
    command = runs_option(_published_last(command))
    for option in (
        click.option(
            "--notify-secret",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            expose_value=False,
            callback=_note_secret,
            help="Sign what goes to the URL of --notify with the secret in this file (HMAC).",
        ),
        click.option(
            "--notify",
            metavar="URL|PROGRAM",
            expose_value=False,
            is_eager=True,  # its secret is refused without it
            callback=_note_target,
            help="If anything of SITE changed since the last time, send it there as JSON.",
        ),
        click.option(
            "--metrics",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            expose_value=False,
            callback=_note,
            help="Also write metrics of SITE here, for node_exporter's textfile collector.",
        ),
    ):
        command = option(command)
    return command


def option_value(name: str) -> Any:  # noqa: ANN401 - each option has its own type
    """Return the value of one of the options; None if it was not given."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_KEYS[name]) if context else None


def publish_targets() -> dict[str, Any]:
    """Return where others are told, by the option's name; None for those that were not given."""
    return {name: option_value(name) for name in ("metrics", "notify")}


def publish_last(tell: Callable[[Missed], list[str]], show: Callable[[str], object]) -> None:
    """Note what to tell when the verb has ended; of several runs, the last counts.

    Args:
        tell: does it; is given the errors of files to fill, and returns lines.
    """
    context = click.get_current_context(silent=True)
    if context is not None and any(publish_targets().values()):
        context.meta[_PENDING] = tell, show


def publish_now() -> Missed:
    """Tell what was noted, and nothing twice; return the errors of files."""
    missed: Missed = {}
    context = click.get_current_context(silent=True)
    if context is not None and (pending := context.meta.pop(_PENDING, None)):
        tell, show = pending
        for line in tell(missed):
            show(line)
    return missed


def _published_last(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def published(*words: Any, **options: Any) -> Any:  # noqa: ANN401 - of any verb
        from rdmaprov.runs.files import not_written

        try:
            code = command(*words, **options)
        except BaseException:  # another file cannot be written, say: the run has ended nonetheless
            publish_now()
            raise
        if missed := publish_now():
            site = options.get("site")
            site = shlex.quote(str(site)) if site and Path(site).is_dir() else "SITE"  # not a plan
            raise not_written(missed, f"run: rdmaprov history {site}, with the same options.")
        return code

    return published


def publish_run(run: Path, missed: Missed) -> list[str]:
    """Tell others of the site of a run, whose results are written; return lines that say so."""
    from rdmaprov.history.answer import read_history
    from rdmaprov.history.index import Index

    if not any(publish_targets().values()):
        return []
    with Index(run.parent).open() as connection:
        row = connection.execute("SELECT site FROM run WHERE name = ?", (run.name,)).fetchone()
    if row is None or not row[0]:
        return [f"metrics and notification: none: the results of {run} cannot be read"]
    return publish(read_history(Path(row[0]), run.parent), run.parent, missed)


def publish(found: "History", runs: Path, missed: Missed) -> list[str]:
    """Tell others of a site, as the options ask for; return lines that say so."""
    lines = []
    if (file := option_value("metrics")) is not None:
        from rdmaprov.history.metrics import write_metrics

        try:
            write_metrics(found, file)
            lines.append(f"metrics: {file}")
        except OSError as error:
            missed[file] = error
    if (target := option_value("notify")) is not None:
        lines.append(_notify(found, runs, target, option_value("notify_secret"), missed))
    return lines


def _notify(
    found: "History", runs: Path, target: str, secret_file: Path | None, missed: Missed
) -> str:
    """Send what is new; what nobody takes is sent with the next run."""
    from rdmaprov.history import deliver
    from rdmaprov.problem import printable
    from rdmaprov.runs.files import write_whole

    state = deliver.state_path(runs, found.site, target)
    now = deliver.snapshot(found)
    data = deliver.message(found, deliver.read_state(state), now)
    to = deliver.shown_target(target)
    if data is None:
        return f"notify: nothing new for {to}"
    try:
        secret = _secret(secret_file) if secret_file else b""
        deliver.deliver(target, json.dumps(data, ensure_ascii=False).encode(), secret)
    except (deliver.NotDelivered, click.BadParameter) as error:
        why = printable(str(error))
        return f"notify: {to} did not take it: {why}; the next run sends it again"
    try:
        write_whole(state, json.dumps(now))
    except OSError as error:
        missed[state] = error
    return f"notify: sent to {to}"
