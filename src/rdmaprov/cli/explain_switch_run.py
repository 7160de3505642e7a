"""What `rdmaprov explain switch` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli import session
from rdmaprov.cli.options import VaultOptions
from rdmaprov.cli.passwords import provide_passwords
from rdmaprov.cli.switch_view import command_lines, switch_lines
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.switches.as_data import document
from rdmaprov.switches.judge import exit_code, judge_switch
from rdmaprov.switches.read import read_switch
from rdmaprov.switches.saved import find_switches
from rdmaprov.switches.wanted import WantedSwitch, usual_settings, wanted_of


def explain_switch(
    paths: Sequence[Path],
    site: Path | None,
    limit: str | None,
    as_json: bool,
    commands: str | None,
    **vault: Unpack[VaultOptions],
) -> int:
    """Judge saved answers; return the exit code.

    Raises:
        UsageError: no path is given, or one has no file.

    """
    if commands is not None:
        click.echo("\n".join(command_lines(commands)))
        return ExitCode.OK
    if not paths:
        raise UsageError(
            "no DIRECTORY or FILE given",
            "See what to save: rdmaprov explain switch --commands sonic|cumulus|arista|openconfig",
        )
    if limit is not None and site is None:
        raise UsageError("--limit needs --site", "Pass --site SITE, or leave --limit out.")
    wanted = usual_settings() if site is None else _of_site(site, limit, vault)
    found = [judge_switch(read_switch(each), wanted) for each in find_switches(paths)]
    if as_json:
        click.echo(json.dumps(document(found, wanted), indent=2))
    else:
        click.echo("\n".join(switch_lines(found, wanted)))
    return exit_code(found)


def _of_site(site: Path, limit: str | None, vault: VaultOptions) -> WantedSwitch:
    with provide_passwords(vault) as given:
        return wanted_of(session.check_site(site, limit, given, None).fleet)
