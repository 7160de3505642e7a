"""Arguments and options that several verbs have; imports no work, so that help stays fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import click

site_argument = click.argument("site", type=click.Path(path_type=Path))
limit_option = click.option(
    "--limit", metavar="PATTERN", help="Limit to hosts that match this Ansible pattern."
)

vault_file_option = click.option(
    "--vault-password-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Read the vault password from this file or program.",
)
roles_option = click.option(
    "--roles", metavar="NAME[,NAME...]", default="", help="Run only these roles.  [default: all]"
)
json_option = click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=True),
    help="Also write the results to a file as JSON; - is standard output.",
)


def password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the password options."""
    for option in (
        click.option("--ask-become-pass", is_flag=True, help="Ask for the sudo password."),
        click.option("--ask-vault-pass", is_flag=True, help="Ask for the vault password."),
        vault_file_option,
    ):
        command = option(command)
    return command


class PasswordOptions(TypedDict):
    """The values of `password_options`."""

    vault_password_file: Path | None
    ask_vault_pass: bool
    ask_become_pass: bool
