"""The page of `accept`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rdmaprov.report import bandwidth, pairs, paths, samples
from rdmaprov.report.issues import Message, Scope, grid, group_messages
from rdmaprov.report.model import Cell, Grid, Plot, Tone, View
from rdmaprov.words import duration, quantity

_HEADLINES = {
    "ok": "Accepted",
    "failed": "Refused",
    "unknown": "Unknown",
    "interrupted": "Interrupted",
}
_CONNECTED = "Connectivity and sums over gloo passed"
_SIGNS = (
    (Tone.BAD, "failed"),
    (Tone.UNKNOWN, "unknown"),
    (Tone.IDLE, "not measured"),
    (Tone.GOOD, "passed: no finding"),
)
_NODE = "node"
_Subject = tuple[str, int | None]  # node or "", rail or None


def view(data: Mapping[str, Any]) -> View:
    """Return the content of the page, with its plots."""
    site = Scope(data["site"], data["limit"], data["nodes"])
    floor, is_gloo = data["floor"], data["backend"] == "gloo"
    return View(
        headline=_CONNECTED if is_gloo and data["verdict"] == "ok" else _HEADLINES[data["verdict"]],
        summary=f"{quantity(len(data['nodes']), 'node')}, {quantity(data['world_size'], 'rank')}"
        f" · {_count_findings(data['findings'])}"
        + (f" · {floor['sentence']}" if floor else "")
        + (" · gloo: bandwidth and RDMA are not verified" if is_gloo else ""),
        grid=_grid(data),
        issues=group_messages(_messages(data), site),
        plots=tuple(_plots(data)),
        facts=tuple(_facts(data)),
        notes=tuple(data["notes"]),
        files=("results.json", "logs/ranks.jsonl", "logs/"),
    )


def _count_findings(findings: list[Mapping[str, Any]]) -> str:
    count = Counter("wrong" if each["proven"] else "unknown" for each in findings)
    parts = ", ".join(f"{count[word]:,} {word}" for word in ("wrong", "unknown") if count[word])
    return f"{quantity(len(findings), 'finding')}: {parts}" if parts else "no findings"


def _messages(data: Mapping[str, Any]) -> Iterator[Message]:
    for each in data["findings"]:
        tone = Tone.BAD if each["proven"] else Tone.UNKNOWN
        where = "" if each["rail"] is None else f"rail {each['rail']}"
        for name in each["nodes"] or [""]:
            yield Message(tone, where, name, each["what"], each["remedy"])


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "backend", data["backend"] or "not chosen"
    yield from _stages(data.get("stages", ()))
    if rails := data.get("floor_over_rails"):
        yield "over rails alone (NCCL_MNNVL_ENABLE=0)", rails["sentence"]
    if floor := data["floor"]:
        yield "floor", f"{floor['floor_gb_s']:.4g} GB/s; ceiling {floor['ceiling_gb_s']:.4g} GB/s"
        yield "floor derived from", floor["derivation"]
        if floor["likely_causes"]:
            yield "likely causes", "; ".join(floor["likely_causes"])
    for what in ("torch", "nccl"):
        versions = sorted({node[what] for node in data["nodes"].values() if node[what]})
        if versions:
            yield what, ", ".join(versions)


def _stages(stages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield what each stage did, and how many nodes it took out of the next ones."""
    for each in stages:
        lost = quantity(len(each["left_out"]), "node")
        left = f"; {lost} left out of the next stages" if each["left_out"] else ""
        took = duration(each["seconds"])
        yield f"stage {each['name']}", f"{each['state']} in {took}: {each['said']}{left}"


def _grid(data: Mapping[str, Any]) -> Grid:
    """Return nodes by rails, with a column for findings on the node as a whole."""
    found: dict[_Subject, list[bool]] = {}
    for each in data["findings"]:
        for name in each["nodes"] or [""]:
            found.setdefault((name, each["rail"]), []).append(each["proven"])
    numbers = {each["rail"] for each in (*data["findings"], *data["rails"])} - {None}
    columns = [None, *sorted(numbers)]
    measured = bool(data["planes"])

    def cells(name: str) -> tuple[Cell, ...]:
        return tuple(_cell(found.get((name, rail), []), measured) for rail in columns)

    by_node = {name: cells(name) for name in data["nodes"]}
    together = cells("") if any(not name for name, _ in found) else ()
    names = [_NODE if rail is None else f"rail {rail}" for rail in columns]
    return grid("rail", names, by_node, _SIGNS, together)


def _cell(proven: list[bool], measured: bool) -> Cell:
    if any(proven):
        return Cell(Tone.BAD, str(sum(proven)), quantity(sum(proven), "finding"))
    if proven:
        return Cell(Tone.UNKNOWN, str(len(proven)), f"{len(proven)} unknown")
    if measured:
        return Cell(Tone.GOOD, "", "no finding")
    return Cell(Tone.IDLE, "", "not measured")


def _plots(data: Mapping[str, Any]) -> Iterator[Plot]:
    yield from paths.plots(data)
    for make in (bandwidth.plot, pairs.plot, samples.plot):
        found = make(data)
        if found is not None:
            yield found
