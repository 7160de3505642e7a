"""What kept runs measured of a node and of others without it: what this shows, what it excludes."""

import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from rdmaprov.dossier.findings import has_part, of_run
from rdmaprov.dossier.kept import KeptRun, Row
from rdmaprov.isolation.compare import BAD_SHARE
from rdmaprov.runs.results import ALONE
from rdmaprov.words import quantity

_MOST_TESTS = 400


def history(runs: Sequence[KeptRun], run: KeptRun, node: str) -> Iterator[Row]:
    """Yield what each run says of a node: before, this one, after."""
    for each in runs:
        if node not in each.data["nodes"]:
            continue
        found = [row for row in of_run(each, node) if not row["skipped"] and has_part(row)]
        when = "this run" if each.name == run.name else "before"
        when = "after" if each.data["started"] > run.data["started"] else when
        yield {
            "when": when,
            **each.origin,
            "verdict": each.data["verdict"],
            "findings": sorted({row["kind"] for row in found}),
            "alone_gb_s": next((row["gb_s"] for row in alone(each) if row["node"] == node), None),
        }


def alone(run: KeptRun) -> Iterator[Row]:
    """Yield what each node reached by itself in an acceptance."""
    for stage in run.data.get("stages", ()):
        for number in stage["numbers"]:
            if (name := number["what"].removesuffix(ALONE)) in run.data["nodes"]:
                numbers = {key: round(number[key], 3) for key in ("gb_s", "least_gb_s")}
                yield {"node": name, "stage": stage["name"], **numbers}


def tests(run: KeptRun, node: str, group: Collection[str]) -> list[Row]:
    """Return the tests with a node or its group, then those of their partners without them."""
    of = {node, *group}
    with_it = [row for row in run.tests[1] if not of.isdisjoint(row["nodes"])]
    partners = {name for row in with_it for name in row["nodes"]} - of
    without = [
        row
        for row in run.tests[1]
        if of.isdisjoint(row["nodes"]) and not partners.isdisjoint(row["nodes"])
    ]
    chosen = [*with_it[:_MOST_TESTS], *without[:_MOST_TESTS]]
    return [{**row, "run": run.name, "command": run.origin["command"]} for row in chosen]


def leaves(run: KeptRun, rows: Sequence[Row]) -> dict[str, str]:
    """Return the leaf of each node of some tests."""
    return {name: run.tests[0].get(name, "") for row in rows for name in row["nodes"]}


def counters(runs: Sequence[KeptRun], node: str, rail: int | None) -> Iterator[Row]:
    """Yield what the counters of a node's rails counted, each with its time.

    Args:
        rail: of the part at fault; None for all.
    """
    for run in runs:
        until = {"until": run.data["ended"], **run.origin}
        samples = (run.data.get("samples") or {}).get("rails", ())
        for each in (*samples, *run.data.get("rails", ())):
            if each["node"] == node and rail in (None, each["rail"]):
                counts = {**each.get("counts", {}), "sent_bytes": each.get("sent_bytes")}
                rows = [(name, value) for name, value in counts.items() if value is not None]
                rows += [(f"events: {e['kind']}", e["count"]) for e in each.get("events", ())]
                for name, value in rows:
                    yield {"rail": each["rail"], "counter": name, "value": value, **until}
        own = run.data["nodes"].get(node, {})
        for number, each in enumerate(own.get("rails", ()) if run.data["verb"] == "watch" else ()):
            for name, value in each["counted"].items() if rail in (None, number) else ():
                yield {"rail": number, "counter": name, "value": value, **until}
        for row in of_run(run, node):
            if "count" in row["values"] and row["part"] and rail in (None, row["rail"]):
                value = row["values"]["count"]
                yield {"rail": row["rail"], "counter": row["part"], "value": value, **until}


def excluded(
    runs: Sequence[KeptRun], run: KeptRun, node: str, accused: Row | None
) -> Iterator[Row]:
    """Yield what is not the cause, and by which measurement; what was not measured is not here."""
    of = accused["of"] if accused else ""
    for each in alone(run):
        if each["node"] == node and each["gb_s"] >= each["least_gb_s"] > 0 and of != "gpu":
            numbers = {"value": each["gb_s"], "least": each["least_gb_s"]}
            yield _row(run, "GPUs and NVLink inside the node", "all-reduce of it alone", numbers)
    rows = [row for row in run.tests[1] if "gb_s" in row]
    yield from _partners(run, node, rows)
    if accused and of == "rail":
        yield from _other_rails(run, node, accused["rail"], rows)
    for stage in run.data.get("stages", ()):
        gone = any(node in each["left_out"] for each in run.data["stages"])
        if stage["name"] == "fleet" and stage["state"] == "passed" and gone:
            yield _row(run, "the rest of the fleet", "stage fleet without the node passed", {})
    for kept in [each for each in runs if each.data["verb"] == "validate"]:
        checked = kept.data["nodes"].get(node, {})
        if checked.get("state") == "passed" and checked.get("complete"):
            numbers = {"value": checked["passed"], "least": checked["passed"]}
            yield _row(kept, "settings of the node", "checks of validate that passed", numbers)
    yield from _firmware(run, node, accused["rail"] if accused and of == "rail" else None)


def _row(run: KeptRun, what: str, how: str, numbers: Row) -> Row:
    return {"what": what, "how": how, "value": None, "least": None, **numbers, **run.origin}


def _partners(run: KeptRun, node: str, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield that nodes which are slow with a node are not slow without it."""
    whole = [row for row in rows if row["gpu"] is None]
    if not whole:
        return
    least = BAD_SHARE * statistics.median(row["gb_s"] for row in whole)
    slow = [row for row in whole if node in row["nodes"] and row["gb_s"] < least]
    others = {name for row in slow for name in row["nodes"]} - {node}
    free = [row for row in whole if node not in row["nodes"] and others & set(row["nodes"])]
    slowest = min((row["gb_s"] for row in free), default=0.0)
    if others and slowest >= least:
        numbers = {"value": slowest, "least": round(least, 3)}
        how = f"slowest of {len(free)} tests of these nodes without it"
        yield _row(run, f"the {len(others)} nodes that were slow with it", how, numbers)


def _other_rails(run: KeptRun, node: str, rail: int, rows: Sequence[Row]) -> Iterator[Row]:
    single = [row for row in rows if row["rail"] is not None]
    mine = [row for row in single if node in row["nodes"] and row["rail"] != rail]
    if mine:
        usual = statistics.median(row["gb_s"] for row in single)
        slowest = min(row["gb_s"] for row in mine)
        if slowest >= BAD_SHARE * usual:
            numbers = {"value": slowest, "least": round(BAD_SHARE * usual, 3)}
            rails = quantity(len({row["rail"] for row in mine}), "other rail")
            how = f"slowest of {rails}, each by itself"
            yield _row(run, "the other rails of the node", how, numbers)


def _firmware(run: KeptRun, node: str, rail: int | None) -> Iterator[Row]:
    """Yield that the NIC has the firmware that most nodes have there."""
    found = {
        name: own["firmware"][rail]
        for name, own in run.data["nodes"].items()
        if rail is not None and len(own.get("firmware", ())) > rail
    }
    for version, count in Counter(found.values()).most_common(1):
        if version and found.get(node) == version and count > 1:
            how = f"{version}, as on {count} of {len(found)} nodes"
            yield _row(run, "the firmware of the NIC", how, {"value": count, "least": 2})
