"""Isolation over gloo by what emulated nodes measured: one rail slow, and processors shared."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from tests.unit.helpers.gate_sites import made_site
from tests.unit.helpers.live_ranks import FakeRunner

from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.stages import groups as stages_groups

RECORDED = Path(__file__).parents[2] / "fixtures/gloo/pairs-of-four-nodes.jsonl"


class RecordedRunner(FakeRunner):
    """Has each pair measure what it was recorded with: again and again, in that order."""

    def __init__(self):
        super().__init__(lambda *_: 1.0)
        self.recorded = defaultdict(list)
        for line in RECORDED.read_text().splitlines():
            row = json.loads(line)
            pair = tuple(name.replace("node", "n") for name in row["nodes"])
            self.recorded[row["plane"], pair].append(row)

    def times(self, run, task, ranks, size):
        pair = tuple(sorted(map(run.job.node_of, ranks)))
        rows = self.recorded[task.plane, pair] or self._alike(task.plane, "n4" in pair)
        rows.append(row := rows.pop(0))
        assert size == row["bytes"]
        return {"median_us": row["median_us"], "p99_us": row["median_us"], "min_us": row["min_us"]}

    def _alike(self, plane, has_culprit):
        """Return what other pairs had, for one that was not asked there."""
        return [
            row
            for (where, pair), rows in self.recorded.items()
            for row in rows
            if where == plane and has_culprit == ("n4" in pair)
        ]


def test_pair_that_had_the_processors_to_itself_accuses_no_other(tmp_path):
    site = made_site(tmp_path, 4, "gloo")
    with LiveRanks(site, RecordedRunner(), "isolation").opened() as live:
        found = stages_groups.run_isolation(live, site)
    assert [(each.node, each.rail) for each in found] == [("n4", 1)]
