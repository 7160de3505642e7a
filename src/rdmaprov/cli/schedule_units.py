"""The text of the systemd units that `rdmaprov schedule` writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import UsageError
from rdmaprov.problem import printable

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
    """A command that systemd runs at a time.

    Args:
        verb: of rdmaprov.
        when: as OnCalendar has it.
        argv: the whole command.
        user: who runs it.
        directory: its working directory.
        environment: variables that it needs.

    """

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
