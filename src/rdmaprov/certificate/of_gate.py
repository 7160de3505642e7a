"""What a certificate takes from a gate that passed: numbers, floors, what each node measured."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.result import GateResult
from rdmaprov.certificate.statement import Part
from rdmaprov.problem import printable

_MOST = 4000  # characters; a certificate's shape allows 4,096
RUNTIME = ("python", "torch", "nccl")


def parts_of(result: GateResult) -> Part:
    """Return the parts of a certificate that the result of a gate has, without its nodes."""
    runs = list(_runs(result))
    return {
        "verdict": result.verdict,
        "backend": result.backend,
        "ranks": runs[0][1].job.world,
        "stages": [
            {**each, "said": _plain(each["said"])}
            for each in (report.as_data() for report in result.stages)
        ],
        "rows": [row for _, ran in runs for row in _rows(ran)],
        "floors": [floor for each, ran in runs for floor in _floors(each, ran)],
        "notes": [_plain(note) for note in result.notes],
    }


def _plain(text: str) -> str:
    """Return a line, which may have words of a node, as a certificate may have it."""
    return printable(text)[:_MOST]


def measured_by_node(result: GateResult) -> dict[str, list[Part]]:
    """Return by node the times of its ranks at each plane's largest all-reduce, in place."""
    found: dict[str, list[Part]] = defaultdict(list)
    for _, ran in _runs(result):
        for row in _top_rows(ran):
            own = [
                event
                for event in ran.events_of("row")
                if (event["task"], event["bytes"]) == (row.task, row.bytes) and event["in_place"]
            ]
            for event in sorted(own, key=lambda event: int(event["rank"])):
                found[ran.job.node_of(event["rank"])].append(
                    {
                        "plane": row.plane,
                        "bytes": row.bytes,
                        "rank": event["rank"],
                        "median_us": float(event["median_us"]),
                    }
                )
    return found


def _top_rows(ran: JobRun) -> list[measure.SweepRow]:
    """Return the row of each plane's largest all-reduce in place."""
    reduced = [row for row in _fleet_rows(ran) if row.collective == "all_reduce"]
    rows = (measure.largest_row(reduced, plane.name) for plane in ran.job.planes)
    return [row for row in rows if row is not None]


def runtime_of(result: GateResult, name: str) -> dict[str, str]:
    """Return the versions that a node's ranks ran with."""
    versions = result.facts[name]["torch"]
    return {key: str(versions.get(key, "")) for key in RUNTIME}


def _runs(result: GateResult) -> Iterator[tuple[GateResult, JobRun]]:
    """Yield the run of all nodes, and the one over rails alone, if there was one."""
    for each in (result, result.over_rails):
        if each is not None and each.ran is not None:
            yield each, each.ran


def _fleet_rows(ran: JobRun) -> list[measure.SweepRow]:
    return [row for row in measure.rows(ran) if len(row.ranks) == ran.job.world]


def _rows(ran: JobRun) -> Iterator[Part]:
    for row in _fleet_rows(ran):
        yield {
            "plane": row.plane,
            "collective": row.collective,
            "bytes": row.bytes,
            "in_place": row.in_place,
            "count": row.count,
            "median_us": row.median_us,
            "p99_us": row.p99_us,
            "busbw_gb_s": row.busbw_gb_s,
        }


def _floors(result: GateResult, ran: JobRun) -> Iterator[dict[str, Any]]:
    judgement, row = result.judgement, fleet_floor.fleet_row(ran)
    if judgement is None or judgement.verdict is None or row is None:
        return
    floor = judgement.floor
    yield {
        "plane": row.plane,
        "bytes": row.bytes,
        "measured_gb_s": row.busbw_gb_s,
        "floor_gb_s": floor.floor_gb_s,
        "derived_gb_s": floor.derived_gb_s,
        "ceiling_gb_s": floor.ceiling_gb_s,
        "most_gb_s": None if math.isinf(floor.most_gb_s) else floor.most_gb_s,
        "algorithm": floor.algorithm,
        "derivation": floor.derivation,
        "reason": floor.reason,
        "verdict": judgement.verdict.value,
    }
