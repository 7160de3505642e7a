"""`rdmaprov validate`: verify that nodes are in the state that the site describes."""

from contextlib import nullcontext
from pathlib import Path
from typing import IO, Unpack

import click

from rdmaprov.cli.options import (
    STATE_AGE_H,
    PasswordOptions,
    exclude,
    idle_option,
    json_option,
    limit_option,
    optional_site_argument,
    password_options,
    record_option,
    refuse_empty,
    site_or_record,
)
from rdmaprov.cli.publish import publish_options, publish_targets
from rdmaprov.cli.verbosity import verbosity
from rdmaprov.errors import UsageError
from rdmaprov.verbosity import Verbosity

# pytest has these options too, and takes those after SITE.
_VERBOSITY = {Verbosity.QUIET: ("-q",), Verbosity.NORMAL: (), Verbosity.VERBOSE: ("-v",)}


@click.command(
    short_help="Verify every setting of the nodes.",
    epilog="Exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage,"
    " 3 the site is invalid, 4 none failed, but a node is unreachable or a result is unknown.",
    context_settings={"ignore_unknown_options": True},
)
@optional_site_argument
@limit_option
@idle_option
@click.option(
    "--hosts",
    metavar="SPEC[,SPEC...]",
    callback=refuse_empty,
    help="Connect with testinfra's own backends, such as ssh://HOST or local://.",
)
@record_option
@click.option(
    "--from-states",
    "states",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Connect to no node; judge the states that nodes signed, each as DIR/NODE.state.",
)
@click.option(
    "--max-age",
    metavar="HOURS",
    type=click.FloatRange(min=0, min_open=True),
    default=STATE_AGE_H,
    show_default=True,
    help="With --from-states: what an older state says is unknown.",
)
@json_option
@publish_options
@password_options
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST_OPTIONS]...")
def validate(
    site: Path | None,
    limit: str | None,
    is_idle: bool,
    hosts: str | None,
    record_file: Path | None,
    states: Path | None,
    max_age: float,
    json_file: IO[str] | None,
    options: tuple[str, ...],
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Verify that the nodes of SITE are in the state that it describes; change nothing.

    Opens one ssh connection per node. Accepts pytest options (-k, -m, -x, --lf) and names of test
    files. Logs and results go to runs/, without secrets.
    """
    if record_file is not None and site is not None and not site.is_dir():
        site, options = None, (str(site), *options)  # a word of pytest's
    asks = passwords["ask_become_pass"]
    ways = {"hosts": hosts, "idle": is_idle, "ask_become_pass": asks}
    others = {"limit": limit, "from_states": states, **publish_targets()}
    site_or_record(site, record_file, **ways, **others)
    if record_file is not None:
        from rdmaprov.cli.record_replay import validate_record

        options = (*_VERBOSITY[verbosity()], *options)
        return validate_record(site, record_file, options, json_file, passwords)
    assert site is not None  # noqa: S101 - or it was refused
    if states is not None:
        exclude("from-states", **ways, pytest_options=options)
        from rdmaprov.cli.validate_states import validate_states

        return validate_states(site, limit, states, max_age, json_file, passwords)
    if str(site).startswith("-"):
        raise UsageError(f"the site must come before {site}", f"Run: rdmaprov validate SITE {site}")
    if hosts:
        exclude("hosts", limit=limit, idle=is_idle, ask_become_pass=asks)
    from rdmaprov.cli import pipe, session
    from rdmaprov.terminal import Line
    from rdmaprov.validate.run import ValidateRequest, run

    with session.prepare(site, limit, json_file, passwords) as ready:
        if is_idle:
            from rdmaprov.cli.idle_nodes import select_idle

            ready = select_idle(ready)
            limit = ",".join(ready.nodes)  # for workers, which read the site anew
        options = (*_VERBOSITY[verbosity()], *options)
        request = ValidateRequest(site, limit, hosts, options, ready.arguments, ready.waivers)
        with pipe.to_stderr() if session.is_stdout(json_file) else nullcontext():
            done = run(request, ready.fleet, ready.mask)
    lines = map(Line, done.summary)
    session.conclude(done.directory, done.text, lines, ready.screen, json_file)
    return done.code
