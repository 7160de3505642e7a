"""A run's page: results.json → one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from rdmaprov.report import of_accept, of_apply, of_validate
from rdmaprov.report.model import Tone, View
from rdmaprov.report.words import duration

_VIEWS: Mapping[str, Callable[[Mapping[str, Any]], View]] = {
    "plan": of_apply.view,
    "apply": of_apply.view,
    "validate": of_validate.view,
    "accept": of_accept.view,
}
_TONES = {
    "ok": Tone.GOOD,
    "failed": Tone.BAD,
    "unknown": Tone.UNKNOWN,
    "pending": Tone.DUE,
    "interrupted": Tone.UNKNOWN,
}
_WORDS = {Tone.BAD: "wrong:", Tone.UNKNOWN: "not known:", Tone.DUE: "due:"}
# What is shown at once, and what at all: results.json has the rest, and a page stays a few MB.
_MOST = {"most_rows": 40, "most_troubles": 40, "most_in_all": 1000, "most_messages": 50}


def html(data: Mapping[str, Any], run: str = "") -> str:
    """Return the page of a run.

    Args:
        data: results.json, as docs/results.schema.json describes it.
        run: the name of its directory, for commands that make the page again.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is not as described.

    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rdmaprov.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    view = _VIEWS[data["verb"]](data)
    return environment.get_template("page.html.j2").render(
        head=data,
        view=view,
        run=run,
        tone=_TONES[data["verdict"]],
        tones=_WORDS,
        cause=view.troubles[0] if view.troubles else None,
        started=_time(data["started"]),
        facts=_facts(data, view),
        **_MOST,
    )


def _facts(data: Mapping[str, Any], view: View) -> list[tuple[str, str]]:
    code = f"{data['exit_code']} ({data['verdict']})"
    return [
        ("started", _time(data["started"])),
        ("took", duration(data["seconds"])),
        ("exit code", code),
        *view.facts,
        ("written by", f"rdmaprov {data['rdmaprov']}"),
    ]


def _time(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S %Z}"
