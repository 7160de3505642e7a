"""Write the page of a run beside its results.json."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rdmaprov.problem import CONTROL, printable
from rdmaprov.report import read
from rdmaprov.report.model import Tone, View, Waiver
from rdmaprov.runs.files import write_whole
from rdmaprov.runs.groups import label
from rdmaprov.words import duration

if TYPE_CHECKING:
    from jinja2 import Template

NAME = "report.html"


def write_page(directory: Path) -> Path:
    """Write a run's page completely or not at all; return its path.

    Raises:
        RunUnknown: the run's results.json cannot be read.
        ImportError: a library is missing.
        OSError: the page cannot be written.
    """
    data = read.read_results(directory)
    try:
        text = html(data, directory.resolve().name)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"{type(error).__name__}: {error}"
        raise read.damage_error(directory / "results.json", what) from error
    path = directory / NAME
    write_whole(path, text)  # only its user can read a run, and so all of its files
    return path


def report_page(directory: Path, on_error: Callable[[OSError], object] = repr) -> str:
    """Write a run's page; return the line that names it, or says why there is none.

    It never raises: the run has ended, and its verdict stands.
    """
    try:
        return f"report: {write_page(directory)}"
    except Exception as error:
        if isinstance(error, OSError):
            on_error(error)
        why = printable(_reason(error))
        return f"report: not written: {why}. Fix this, then run: rdmaprov report {directory}"


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"the Python package {error.name or error} cannot be imported"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)


# The modules whose `view` makes what a page shows. A run loads that of its own verb alone.
_VIEWS = {
    "plan": "of_apply",
    "apply": "of_apply",
    "revert": "of_apply",
    "validate": "of_validate",
    "accept": "of_accept",
    "subnet": "of_subnet",
    "watch": "of_watch",
    "tune": "of_tune",
}
_TONES = {
    "ok": Tone.GOOD,
    "failed": Tone.BAD,
    "unknown": Tone.UNKNOWN,
    "pending": Tone.DUE,
    "interrupted": Tone.UNKNOWN,
}
_INVISIBLE = re.compile(f"[{CONTROL}\ud800-\udfff]")  # and what UTF-8 does not have
_WORDS = {Tone.BAD: "failed:", Tone.UNKNOWN: "unknown:", Tone.DUE: "pending:", Tone.IDLE: "victim:"}
# What the page shows at once, and in all; results.json has the rest, so a page stays a few MB.
_MOST = {"most_rows": 40, "most_issues": 40, "most_in_all": 1000, "most_messages": 50}


def html(data: Mapping[str, Any], run: str = "") -> str:
    """Return the page of a run.

    Args:
        run: the name of its directory, for commands that make the page again.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it does not match the schema.
    """
    data = clean(data)
    view = import_module(f"{__package__}.{_VIEWS[data['verb']]}").view(data)
    return template("page.html.j2").render(
        head=data,
        view=view,
        again=f"rdmaprov report {run}".rstrip(),
        tone=_TONES[data["verdict"]],
        tones=_WORDS,
        cause=view.issues[0] if view.issues else None,
        waivers=[
            Waiver(
                each["rule"],
                each["reason"],
                each["found"],
                label(each["nodes"], len(data["nodes"])),
                tuple(each["nodes"]),
            )
            for each in data.get("waivers", [])  # rdmaprov 0.1.0 wrote none
        ],
        started=_time(data["started"]),
        facts=_facts(data, view),
        **_MOST,
    )


def template(name: str) -> "Template":
    """Return a template of a page; all texts that are put into it are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rdmaprov.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment.get_template(name)


def clean(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return results with what is invisible, or turns a text around, escaped."""
    if isinstance(value, str):
        return _INVISIBLE.sub(lambda found: ascii(found[0])[1:-1], value)
    if isinstance(value, Mapping):
        return {clean(key): clean(each) for key, each in value.items()}
    return [clean(each) for each in value] if isinstance(value, list) else value


def _facts(data: Mapping[str, Any], view: View) -> list[tuple[str, str]]:
    code = f"{data['exit_code']} ({data['verdict']})"
    return [
        ("started", _time(data["started"])),
        ("duration", duration(data["seconds"])),
        ("exit code", code),
        *view.facts,
        *(("relay", f"{one['by']} stands in for {one['relay']}") for one in data.get("relays", ())),
        ("written by", f"rdmaprov {data['rdmaprov']}"),
    ]


def _time(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S %Z}"
