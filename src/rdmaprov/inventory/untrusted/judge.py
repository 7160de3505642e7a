"""What is refused in the values of a stranger's site, collected as problems."""

from __future__ import annotations

import re
from pathlib import Path

from rdmaprov.inventory.untrusted import limits
from rdmaprov.inventory.untrusted.references import SUPPORTED, is_refused
from rdmaprov.inventory.untrusted.tree import TooMuch
from rdmaprov.inventory.yaml_scalars import Judge
from rdmaprov.problem import CONTROL, Position, Problem

_CONTROL = re.compile(f"[{CONTROL}]")
_MOST_SHOWN = 60
RULE = "untrusted"


class SiteJudge(Judge):
    """Collects what is wrong, up to the number that is printed.

    Attributes:
        problems: those found so far.

    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong_text(self, value: str, *, literal: bool) -> tuple[str, str] | None:
        """Return what is wrong: a text is too long, has control characters or is a template."""
        if len(value) > limits.MOST_TEXT:
            most = f"{limits.MOST_TEXT:,}"
            return f"has {len(value):,} characters, and the limit is {most}", "shorten the text"
        if not value.isprintable() and (found := _CONTROL.search(value.replace("\r", ""))):
            return f"has the control character U+{ord(found[0]):04X}", "remove it"
        if not literal and is_refused(value):
            message = "is a template, which --untrusted does not evaluate"
            return message, f"write a value, or a reference: {SUPPORTED}"
        return None

    def refuse(self, at: Position, names: list[str], message: str, remedy: str) -> None:
        """Take note of what is wrong at a place.

        Raises:
            TooMuch: so much is wrong that nothing more is read.

        """
        name = names[-1] if names else Path(at.file).name
        shown = name if len(name) <= _MOST_SHOWN else f"{name[: _MOST_SHOWN - 3]}..."
        problem = Problem(at, shown, message, remedy, RULE)
        if len(self.problems) >= limits.MOST_PROBLEMS:
            raise TooMuch(problem)
        self.problems.append(problem)

    @staticmethod
    def stop(at: Position, name: str, message: str, remedy: str) -> None:
        """Refuse the site for something that exceeds a limit.

        Raises:
            TooMuch: always.

        """
        raise TooMuch(Problem(at, name[:_MOST_SHOWN], message, remedy, RULE))
