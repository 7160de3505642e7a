"""What `rdmaprov schedule` does; apart from its options, so that help stays fast."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import click

from rdmaprov.cli import session
from rdmaprov.cli.options import VaultOptions
from rdmaprov.cli.passwords import provide_passwords
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.problem import printable
from rdmaprov.runs.files import read_whole, write_whole
from rdmaprov.scheduler.choice import KIND, choose_scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.slurm import Slurm

_SERVICE = """\
# Written by rdmaprov schedule.
[Unit]
Description=rdmaprov {verb} {site}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User={user}
WorkingDirectory={directory}
{environment}ExecStart={run}
# As Ctrl-C does: what runs on nodes is ended, and results are written.
KillSignal=SIGINT
KillMode=mixed
TimeoutStopSec=5min
"""
_TIMER = """\
# Written by rdmaprov schedule.
[Unit]
Description=rdmaprov {verb} {site}, {when}

[Timer]
OnCalendar={when}
# Several sites would begin in the same second.
RandomizedDelaySec=5min
Persistent=true

[Install]
WantedBy=timers.target
"""
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+")
_ODD_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class ScheduledVerb:
    """A command that systemd runs at a time."""

    verb: str
    when: str
    argv: Sequence[str]
    user: str
    directory: Path
    environment: Mapping[str, str]

    def units(self, site: str) -> dict[str, str]:
        """Return the text of the service and the timer, by file name.

        Raises:
            UsageError: a word has what a unit cannot hold.
        """
        words = (*self.argv, str(self.directory), self.when, site, self.user)
        for word in (*words, *self.environment.values()):
            if printable(word) != word or "\\" in word:  # which would join two lines
                raise UsageError(
                    f"{printable(word)} cannot be written into a unit: it has a backslash or a"
                    " character that is not printable",
                    "Rename it",
                )
        names = {"verb": self.verb, "site": _escape(site), "when": _escape(self.when)}
        environment = "".join(
            f"Environment={quote(f'{name}={value}')}\n" for name, value in self.environment.items()
        )
        service = _SERVICE.format(
            **names,
            user=_escape(self.user),
            directory=_escape(str(self.directory)),
            environment=environment,
            run=" ".join(quote(word, command=True) for word in self.argv),
        )
        stem = f"rdmaprov-{self.verb}-{_ODD_IN_NAME.sub('-', site)}"
        return {f"{stem}.service": service, f"{stem}.timer": _TIMER.format(**names)}


def quote(word: str, *, command: bool = False) -> str:
    r"""Return a word as a unit's line has it (systemd.syntax(7), "Quoting"; systemd.unit(5), `%`).

    Args:
        word: any printable text.
        command: of an Exec line, in which `$` begins a variable (systemd.service(5)).

    >>> quote('/srv/50% "new"/site')
    '"/srv/50%% \\"new\\"/site"'
    """
    if _PLAIN.fullmatch(word):
        return word
    inner = _escape(word.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{inner.replace("$", "$$") if command else inner}"'


def _escape(text: str) -> str:
    return text.replace("%", "%%")


# Of this shell: what the verbs and Slurm's commands read.
_PASSED = ("ANSIBLE_CONFIG", "RDMAPROV_RUNS", "SLURM_CONF")
_CALENDAR_S = 10
_MOST_UNIT = 1 << 20  # bytes


def write_units(
    site: Path,
    directory: Path,
    validate_at: str,
    accept_at: str,
    is_forced: bool,
    **vault: Unpack[VaultOptions],
) -> ExitCode:
    """Write the units of a site, and print what to do with them; return the exit code.

    Args:
        validate_at: when, as systemd's OnCalendar has it.
        accept_at: when; empty for never.
        vault: how the site's vault is opened, now and by the timers.

    Raises:
        UsageError: a time is none, the vault's password would be asked for, or a unit differs.
    """
    if vault["ask_vault_pass"]:
        raise UsageError("a timer cannot ask for a password", "Pass --vault-password-file")
    for option, when in (("--validate", validate_at), ("--accept", accept_at)):
        if when or option == "--validate":
            _require_calendar(option, when)
    with provide_passwords({**vault, "ask_become_pass": False}) as given:
        ready = session.check_site(site, None, given, None)
    files: dict[Path, str] = {}
    for job in _jobs(site, ready, validate_at, accept_at, vault):
        own = job.units(site.resolve().name)
        files.update({directory / name: text for name, text in own.items()})
    _require_same(files, is_forced)
    for path, text in files.items():
        write_whole(path, text, mode=0o644)
        click.echo(f"written: {path}")
    timers = [path.name for path in files if path.suffix == ".timer"]
    click.echo(f"start them: systemctl daemon-reload && systemctl enable --now {' '.join(timers)}")
    return ExitCode.OK


def _jobs(
    site: Path, ready: session.Prepared, validate_at: str, accept_at: str, vault: VaultOptions
) -> Iterator[ScheduledVerb]:
    scheduler = choose_scheduler(ready.fleet.nodes)
    has_scheduler = not isinstance(scheduler, NoScheduler)
    if not has_scheduler:
        click.echo(f"validate: all nodes ({KIND}: none)")
    words = ["--idle"] if has_scheduler else []
    yield _job("validate", site, validate_at, words, vault)
    if accept_at and isinstance(scheduler, Slurm):
        yield _job("accept", site, accept_at, words, vault)
    elif accept_at:
        click.echo(f"accept: not scheduled: without Slurm, jobs may run on the nodes ({KIND})")


def _job(
    verb: str, site: Path, when: str, words: Sequence[str], vault: VaultOptions
) -> ScheduledVerb:
    own = Path(sys.executable).with_name("rdmaprov")
    program = [str(own)] if own.exists() else [sys.executable, "-m", "rdmaprov"]
    file = vault["vault_password_file"]
    password = ["--vault-password-file", str(file)] if file else []
    argv = [*program, verb, str(site.resolve()), *words, *password]
    environment = {name: os.environ[name] for name in _PASSED if os.environ.get(name)}
    user = pwd.getpwuid(os.geteuid()).pw_name  # LOGNAME may say anything
    return ScheduledVerb(verb, when, argv, user, Path.cwd(), environment)


def _require_calendar(option: str, when: str) -> None:
    """Raise if a text is no time of systemd's, where systemd is here to say so."""
    program = shutil.which("systemd-analyze")
    if program is None:
        click.echo(f"{option}: not verified, as systemd-analyze is not on this machine")
        return
    argv = [program, "calendar", "--", when]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CALENDAR_S, check=False
    )
    if done.returncode:
        raise UsageError(
            f"{option} {printable(when)!r} is no time of systemd's",
            "Write it as OnCalendar, such as hourly or 'Sun 03:00'; see systemd.time(7)",
        )


def _require_same(files: Mapping[Path, str], is_forced: bool) -> None:
    """Raise if a unit exists with another content, and that is not to be overwritten."""
    for path, text in files.items():
        try:
            there = text.encode() if is_forced else read_whole(path, _MOST_UNIT)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", "Move it away") from error
        if there != text.encode():
            raise UsageError(f"{path} exists with another content", "Compare them, or pass --force")
