"""The page of `subnet`."""

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.report.issues import Message, Scope, grid, group_messages
from rdmaprov.report.model import Cell, Grid, Tone, View
from rdmaprov.runs.groups import count_states
from rdmaprov.words import quantity

_HEADLINES = {"ok": "Healthy", "failed": "Wrong", "unknown": "Unknown"}
_STATES = {"failed": "failed", "unknown": "unknown", "passed": "passed"}
_TONES = {"failed": Tone.BAD, "unknown": Tone.UNKNOWN, "passed": Tone.GOOD}
_SIGNS = (
    (Tone.BAD, "failed"),
    (Tone.UNKNOWN, "unknown (not verified)"),
    (Tone.GOOD, "passed: its link is as planned, without errors"),
)
_ABSENT = Cell(Tone.NONE, "", "the node has no such rail")


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page."""
    site = Scope(data["site"], data["limit"], data["nodes"])
    return View(
        headline=_HEADLINES[data["verdict"]],
        summary=_summary(data),
        grid=_grid(data),
        issues=group_messages(_messages(data), site),
        facts=tuple(_facts(data)),
        files=("results.json", "logs/tools.log"),
    )


def _summary(data: Mapping[str, Any]) -> str:
    states = {name: node["state"] for name, node in data["nodes"].items()}
    nodes = count_states(states, _STATES, ("failed", "unknown"))
    lost = max((each["lost_share"] or 0 for each in data["subnets"]), default=0)
    cost = f" · uneven routes cost an all-reduce up to {lost:.0%} of its bandwidth" if lost else ""
    return f"{nodes} · {quantity(len(data['problems']), 'problem')}{cost}"


def _messages(data: Mapping[str, Any]) -> Iterator[Message]:
    for each in data["problems"]:
        tone = Tone.BAD if each["level"] == "wrong" else Tone.UNKNOWN
        port = "" if each["port"] is None else f" port {each['port']}"
        rails = "".join(f" rail {number}" for number in each["rails"])
        named = each["text"].startswith((each["name"], f"{each['node']} rail "))
        at = "" if named else f"{each['name']}{port}: "
        where = f"{each['kind']},{rails}" if rails else each["kind"]
        yield Message(tone, where, each["node"], f"{at}{each['text']}", each["remedy"])


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "read from", data["from"] or "no host has access"
    if data["saved"]:
        yield "texts", data["saved"]
    for each in data["subnets"]:
        name = f"subnet of {each['device']}" if each["device"] else "subnet"
        switches = f"{each['switches']:,} switches" if each["switches"] != 1 else "1 switch"
        hcas, links = quantity(each["hcas"], "HCA"), quantity(each["links"], "link")
        yield name, f"{switches}, {hcas}, {links}"


def _grid(data: Mapping[str, Any]) -> Grid:
    most = max((len(node["rails"]) for node in data["nodes"].values()), default=0)
    cells = {name: _cells(node["rails"], most) for name, node in data["nodes"].items()}
    return grid("rail", [f"rail {number}" for number in range(most)], cells, _SIGNS)


def _cells(rails: list[Mapping[str, Any]], most: int) -> tuple[Cell, ...]:
    by_number = {each["rail"]: each["state"] for each in rails}
    return tuple(
        Cell(_TONES[by_number[number]], "", by_number[number]) if number in by_number else _ABSENT
        for number in range(most)
    )
