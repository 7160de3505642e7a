"""Arguments and options that several verbs have; imports no work, so that help stays fast."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import click
from click.core import ParameterSource

from rdmaprov.acceptance.launchers import LAUNCHERS
from rdmaprov.cli.complete import complete_limit, complete_roles
from rdmaprov.errors import UsageError

STATE_AGE_H = 24  # of a state that a node signed; our choice, for a timer that runs more often


def refuse_empty(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse an option that is given and empty, as an unset shell variable leaves it.

    Raises:
        click.BadParameter: it is; without the option the verb would take everything.
    """
    given = option.name and context.get_parameter_source(option.name)
    if value is not None and not value.strip(" ,") and given is ParameterSource.COMMANDLINE:
        raise click.BadParameter("is empty; leave the option out to select all")
    return value


class LineRate(float):
    """A line rate in Gb/s; `rails` is the number of rails before it, as in 8x400, else 0."""

    rails = 0

    def __str__(self) -> str:
        """Return the rate as an option takes it, such as 8x400."""
        return f"{self.rails}x{self:g}" if self.rails else f"{self:g}"


def line_rate(value: str | float) -> LineRate:
    """Return the line rate of one rail as people write it: 400, 400G, 1.6T, NDR or 8x400.

    Raises:
        click.BadParameter: it is none.
    """
    from rdmaprov.contract.node import GENERATIONS

    word = "".join(str(value).upper().split())
    unit = r"(?:(T)|G)(?:BE?|B/S|BPS|BIT/S)?"
    found = re.fullmatch(rf"(?:(\d{{1,4}})[X×])?(\d{{1,9}}(?:\.\d+)?)(?:{unit})?", word)
    if not found and word not in GENERATIONS:
        raise click.BadParameter(f"'{value}' is no line rate, such as 400, 400G or NDR")
    rate = LineRate(float(found[2]) * (1000 if found[3] else 1) if found else GENERATIONS[word])
    rate.rails = int(found[1] or 0) if found else 0
    return rate


def bus_bandwidth(value: str | float) -> float:
    """Return a bandwidth in GB/s, with or without that unit.

    Raises:
        click.BadParameter: it is none, or in another unit.
    """
    word = "".join(str(value).split())
    try:
        return float(re.sub(r"(?<=\d)(?:GB(?:/s|ps)?|GBs)$", "", word))
    except ValueError:
        what = f"'{value}' is not a number in GB/s, such as 287 (1 GB/s is 8 Gb/s)"
        raise click.BadParameter(what) from None


def require_rails(rate: float, rails: int, option: str) -> None:
    """Raise a UsageError for a line rate such as 8x400 that names another number of rails."""
    named = getattr(rate, "rails", 0)
    if named not in (0, rails):
        hint = f"Pass {option} {rate:g} for the rate of one rail, or name {named} rails. "
        hint += f"For {named} ports that are one rail, pass {named * rate:g}."
        what = f"{option}: '{rate}' has {named} rails, and --rails names {rails}"
        raise UsageError(what, hint)


site_argument = click.argument("site", type=click.Path(path_type=Path))
site_argument_or_plan = click.argument("site", metavar="SITE|PLAN", type=click.Path(path_type=Path))
record_option = click.option(
    "--record",
    "record_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Judge the node in this record (see: rdmaprov record); SITE defaults to the record's own.",
)
# Of a verb with --record; see `site_or_record`.
optional_site_argument = click.argument(
    "site", type=click.Path(path_type=Path), required=False, default=None
)


def site_or_record(site: Path | None, record_file: Path | None, **others: object) -> None:
    """Refuse a verb that has neither a site nor a record, or a record and what is for nodes.

    Args:
        others: by name, the values of options that have no meaning with a record.

    Raises:
        UsageError: both are given, or neither, or an option that a record has no use for.
    """
    if site is None and record_file is None:
        raise UsageError("no SITE given", "Pass the inventory directory, or --record FILE.")
    if record_file is not None:
        exclude("record", **others)


def exclude(option: str, **others: object) -> None:
    """Refuse options that have no meaning beside another one.

    Args:
        others: their values, by name.

    Raises:
        UsageError: one is given.
    """
    for name in (name for name, value in others.items() if value):
        what = f"--{name.replace('_', '-')} and --{option} exclude each other"
        raise UsageError(what, "Pass one of them.")


limit_option = click.option(
    "-l",
    "--limit",
    metavar="PATTERN",
    callback=refuse_empty,
    shell_complete=complete_limit,
    help="Limit to hosts that match this Ansible pattern.",
)

roles_option = click.option(
    "--roles",
    metavar="NAME[,NAME...]",
    default="",
    callback=refuse_empty,
    shell_complete=complete_roles,
    help="Run only these roles.  [default: all]",
)
json_option = click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=True),
    help="Also write the results to a file as JSON; - is standard output.",
)


idle_option = click.option(
    "--idle",
    "is_idle",
    is_flag=True,
    help="Use only nodes that the scheduler of SITE reports as idle.",
)
launcher_option = click.option(
    "--launcher",
    type=click.Choice(LAUNCHERS),
    help="How ranks are started.  [default: torch_runtime_launcher of SITE]",
)
sizes_option = click.option(
    "--sizes",
    "size_range",
    metavar="MIN:MAX",
    default="",
    help="Message sizes, such as 1M:8G.  [default: all that fit in memory]",
)


def wait_option(what: str) -> Callable[..., Any]:
    """Return the option --wait, for what another run may hold."""
    return click.option(
        "--wait",
        "wait_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        default=0,
        help=f"If another run holds {what}, wait this long.  [default: do not wait]",
    )


def change_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a verb that changes nodes: busy ones, the question, and other runs."""
    for option in (
        wait_option("SITE or a node"),
        click.option("--yes", is_flag=True, help="Do not ask on a terminal."),
        click.option(
            "--force-busy",
            is_flag=True,
            help="Interrupt traffic also on nodes whose RDMA devices or GPUs are in use.",
        ),
    ):
        command = option(command)
    return command


def vault_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the vault password, as every verb has them that reads a site."""
    for option in (
        click.option("--ask-vault-pass", is_flag=True, help="Ask for the vault password."),
        click.option(
            "--vault-password-file",
            type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
            help="Read the vault password from this file or program.",
        ),
    ):
        command = option(command)
    return command


def keep_variable(_context: click.Context, option: click.Parameter, value: object) -> None:
    """Have an option's variable say what the option says, for whoever reads it later."""
    if value is not None:
        os.environ[str(option.envvar)] = str(value)


connections_option = click.option(
    "--connections",
    metavar="N",
    type=click.IntRange(min=1),
    envvar="RDMAPROV_CONNECTIONS",
    expose_value=False,
    callback=keep_variable,
    help="Keep at most this many ssh connections open.  [default: 1024; accept, watch: all]",
)


def password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for connections and passwords, as every verb has them that connects."""
    ask = click.option("--ask-become-pass", is_flag=True, help="Ask for the sudo password.")
    return vault_options(ask(connections_option(command)))


class VaultOptions(TypedDict):
    """The values of `vault_options`."""

    vault_password_file: Path | None
    ask_vault_pass: bool


class PasswordOptions(VaultOptions):
    """The values of `password_options`."""

    ask_become_pass: bool
