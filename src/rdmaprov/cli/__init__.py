"""The `rdmaprov` command: its verbs, and how errors reach the user."""

import errno
import os
import sys
from collections.abc import Sequence

import click

import rdmaprov
from rdmaprov.cli import pipe
from rdmaprov.cli.lazy import LazyGroup
from rdmaprov.cli.verbosity import verbosity_options
from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import MEANINGS, ExitCode
from rdmaprov.interrupt import signals_interrupt
from rdmaprov.surroundings import home_for_ansible, is_of_settings, require_utf8
from rdmaprov.verbosity import no_colour

PROGRAM = "rdmaprov"
_MOST = 300  # characters of an error of Ansible's: a file without lines is quoted whole
# Of a file or directory that the user named, or where the command was started.
_USERS = (errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)

# Verbs as a user meets them; each is the function of its name in the module of its name.
TASKS = {
    "Start": ("init", "discover", "check", "schema", "completion"),
    "Provision": ("plan", "apply", "revert", "compile"),
    "Verify": ("validate", "accept", "subnet", "certificate"),
    "Operate": (
        "watch",
        "history",
        "compare",
        "merge",
        "report",
        "dossier",
        "replace",
        "schedule",
        "tune",
    ),
    "Explain": ("explain", "record"),
    "Lab": ("lab",),
}
VERBS = {verb: f"rdmaprov.cli.{verb}:{verb}" for verbs in TASKS.values() for verb in verbs}


@click.group(
    cls=LazyGroup,
    table=VERBS,
    tasks=TASKS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Help on a verb: rdmaprov help VERB. Exit codes: "
    + ", ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items())
    + ".",
)
@verbosity_options
@click.version_option(rdmaprov.__version__, prog_name=PROGRAM)
def cli() -> None:
    """Provision GPU nodes on RDMA fabrics, verify every setting, measure the fabric."""


def _refuse(message: str, hint: str, code: int) -> int:
    """Print what is wrong and what to do, one line each; return the exit code."""
    colour = _colour()
    click.secho("error: ", fg="red", bold=True, nl=False, err=True, color=colour)
    click.echo(message, err=True)
    if hint:
        click.secho("hint:  ", fg="cyan", nl=False, err=True, color=colour)
        click.echo(hint, err=True)
    return code


def _refuse_os_error(error: OSError, where: object = None) -> int:
    """Print what the system refuses; on a full disk, nothing is known of what was done."""
    from rdmaprov.runs.files import FULL

    where = where or error.filename
    is_full = error.errno in FULL
    what = f"{where}: {error.strerror or error}" if where else str(error.strerror or error)
    if is_full:
        return _refuse(what, "Free space there, then run the same command again.", ExitCode.UNKNOWN)
    if error.errno in _USERS:
        return _refuse(what, "Name another file or directory, or allow it.", ExitCode.USAGE)
    return _refuse(what, "", ExitCode.FAILED)


def _colour() -> bool | None:
    """Return False if NO_COLOR asks for none, which click ignores; else None, click's default."""
    return False if no_colour() else None


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    return f"Run: {path} --help"


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; show a user's mistake as two lines."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    try:
        require_utf8()
        result = cli.main(
            args=list(arguments), prog_name=PROGRAM, standalone_mode=False, color=_colour()
        )
    except RdmaprovError as error:
        return _refuse(error.message, error.hint, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        return _refuse(error.format_message(), _usage_hint(error), ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt) as error:
        if pipe.is_closed():
            return ExitCode.FAILED  # whoever would read a message is gone, too
        if isinstance(error.__context__, EOFError):
            hint = f"Pass the answers as options; see: {PROGRAM} {arguments[0]} --help"
            return _refuse("no answer: standard input ended", hint, ExitCode.USAGE)
        return _refuse("interrupted", "Run the same command again to resume.", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output is gone; so is whoever would read a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except OSError as error:
        return _refuse_os_error(error)
    except Exception as error:
        if not is_of_settings(error):
            raise
        hint = "Correct it in ansible.cfg or the environment. ANSIBLE_CONFIG=FILE names another one"
        return _refuse(ascii(" ".join(str(error).split())[:_MOST])[1:-1], hint, ExitCode.USAGE)
    if result == ExitCode.INTERRUPTED and pipe.is_closed():
        hint = "The results are kept. Run the same command again to resume."
        return _refuse("interrupted: standard output was closed", hint, ExitCode.INTERRUPTED)
    return result if isinstance(result, int) else ExitCode.OK


def main() -> None:
    """Run the program's own command line and exit; a signal to stop is an interrupt."""
    pipe.guard_stdout()
    with signals_interrupt(), home_for_ansible():
        code = run(sys.argv[1:])
        try:
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = _refuse_os_error(error, "standard output")
    sys.exit(code)
