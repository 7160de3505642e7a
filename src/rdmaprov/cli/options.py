"""Arguments and options that several verbs have; no verb's own work, so that help stays fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import click

site_argument = click.argument("site", type=click.Path(path_type=Path))
limit_option = click.option(
    "--limit", metavar="PATTERN", help="Look at these hosts only; Ansible's pattern."
)

vault_file_option = click.option(
    "--vault-password-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="File, or program, with the vault's password.",
)
roles_option = click.option(
    "--roles", metavar="ROLE,…", default="", help="Look at these roles only; all by default."
)
json_option = click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=True),
    help="Write the results to a file too, - for stdout.",
)


def password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name or ask for passwords."""
    for option in (
        click.option("--ask-become-pass", is_flag=True, help="Ask for sudo's password."),
        click.option("--ask-vault-pass", is_flag=True, help="Ask for the vault's password."),
        vault_file_option,
    ):
        command = option(command)
    return command


class Asked(TypedDict):
    """The options of `password_options`."""

    vault_password_file: Path | None
    ask_vault_pass: bool
    ask_become_pass: bool
