"""The verdicts of a certificate, computed again from its numbers and floors."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.acceptance.result import CONNECTED
from rdmaprov.acceptance.stage_report import IN_FILES
from rdmaprov.bandwidth.floor import verdict_of
from rdmaprov.bandwidth.floor_model import FloorVerdict
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.finding.finding import Finding

_NEEDED = ("state", "preflight", "fleet")
_EXACT = 1e-9


def verdict_objections(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what does not follow from the numbers of a certificate, or was no pass."""
    if predicate["verdict"] != (CONNECTED if predicate["backend"] == "gloo" else "accepted"):
        yield _wrong("verdict", f"is {predicate['verdict']}, and a certificate is of a pass")
    yield from _stages(predicate["stages"])
    yield from _rows(predicate)
    yield from _floors(predicate)
    yield from _ranks(predicate)


def _stages(stages: list[dict[str, Any]]) -> Iterator[Finding]:
    names = [each["name"] for each in stages]
    if names != [name for name in IN_FILES if name in names]:
        yield _wrong("stages", "are not in their order, each once")
    for name in _NEEDED:
        if name not in names:
            yield _wrong("stages", f"lack the stage {name}")
    for index, each in enumerate(stages):
        where = f"stages/{index}"
        if each["findings"] or each["left_out"]:
            yield _wrong(where, f"the stage {each['name']} found something wrong")
        if each["state"] != "passed" and (each["state"] != "skipped" or each["name"] in _NEEDED):
            yield _wrong(f"{where}/state", f"the stage {each['name']} is {each['state']}")
        for place, number in enumerate(each["numbers"]):
            if number["gb_s"] < number["least_gb_s"]:
                what = f"{number['what']}: {format_gb_s(number['gb_s'])} is below the least"
                at = f"{where}/numbers/{place}"
                limits = {name: number[name] for name in ("gb_s", "least_gb_s")}
                yield _wrong(at, f"{what}, {format_gb_s(number['least_gb_s'])}", **limits)


def _rows(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield rows whose bus bandwidth is not that of their bytes and time."""
    if not predicate["rows"]:
        yield _wrong("rows", "are missing: nothing was measured")
    for index, row in enumerate(predicate["rows"]):
        busbw = _busbw(row, predicate["ranks"])
        if not math.isclose(busbw, row["busbw_gb_s"], rel_tol=_EXACT):
            said = f"{row['busbw_gb_s']:g} is not {busbw:g}, as bytes and time make"
            numbers = {"said_gb_s": row["busbw_gb_s"], "computed_gb_s": busbw}
            yield _wrong(f"rows/{index}/busbw_gb_s", said, **numbers)
        if row["count"] < 1 or row["median_us"] > row["p99_us"]:
            yield _wrong(f"rows/{index}", "has no times that can be right")


def _busbw(row: Mapping[str, Any], ranks: int) -> float:
    """Return the bus bandwidth, GB/s; see acceptance.measure.SweepRow."""
    directions = 2 if row["collective"] == "all_reduce" else 1
    algbw = float(row["bytes"] / row["median_us"] / 1e3)
    return algbw * (directions * (ranks - 1) / ranks)


def _floors(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    floors = predicate["floors"]
    if predicate["backend"] == "nccl" and not floors:
        yield _wrong("floors", "are missing: over nccl, the bandwidth has a floor")
    for index, floor in enumerate(floors):
        where = f"floors/{index}"
        rows = [each["busbw_gb_s"] for each in _top_rows(predicate, floor["plane"])]
        if floor["measured_gb_s"] not in rows:
            yield _wrong(f"{where}/measured_gb_s", "is in no row of the largest all-reduce")
        most = math.inf if floor["most_gb_s"] is None else floor["most_gb_s"]
        verdict = verdict_of(floor["measured_gb_s"], floor["floor_gb_s"], most)
        if verdict is not FloorVerdict.HEALTHY or verdict.value != floor["verdict"]:
            measured, least = (format_gb_s(floor[k]) for k in ("measured_gb_s", "floor_gb_s"))
            said = f"is {floor['verdict']}; {measured} with a floor of {least} is {verdict.value}"
            yield _wrong(f"{where}/verdict", said, said=floor["verdict"], computed=verdict.value)
        if floor["floor_gb_s"] < floor["derived_gb_s"] and not floor["reason"]:
            yield _wrong(f"{where}/floor_gb_s", "is below the derived floor, without a reason")


def _ranks(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield planes whose time is not that of the slowest rank, or that lack ranks."""
    by_plane: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for name, own in predicate["nodes"].items():
        if not own["ranks"]:
            yield _wrong(f"nodes/{name}/ranks", "are missing: the node measured nothing")
        for each in own["ranks"]:
            at = (each["plane"], each["bytes"])
            by_plane[at].append((each["rank"], each["median_us"]))
    for plane in {row["plane"]: None for row in predicate["rows"]}:
        top = _top_rows(predicate, plane)
        ranks = by_plane.get((plane, top[0]["bytes"]), []) if top else []
        numbers = {rank for rank, _ in ranks}
        if (
            len(ranks) != len(numbers)
            or len(ranks) != predicate["ranks"]
            or (max(numbers) >= predicate["ranks"])
        ):
            yield _wrong("nodes", f"do not have each rank of {plane} once")
        elif max(us for _, us in ranks) != top[0]["median_us"]:
            said = f"{plane}: the time of its largest all-reduce is not that of the slowest rank"
            yield _wrong("rows", said)


def _top_rows(predicate: Mapping[str, Any], plane: str) -> list[dict[str, Any]]:
    """Return the row of a plane's largest all-reduce in place; none if there is none."""
    own = [
        row
        for row in predicate["rows"]
        if row["plane"] == plane and row["in_place"] and row["collective"] == "all_reduce"
    ]
    return [max(own, key=lambda row: int(row["bytes"]))] if own else []


def _wrong(where: str, what: str, **values: float | str) -> Finding:
    return Finding("certificate.verdict", what, part=f"predicate/{where}", values=values)
