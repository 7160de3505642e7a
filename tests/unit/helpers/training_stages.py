"""The stage training over ranks that have performed all tasks before."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from tests.unit.helpers.gate_sites import made_site
from tests.unit.helpers.training_runs import trained

from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.stages import training as stages_training
from rdmaprov.acceptance.training.times import TrainingTimes

ROOT = Path(__file__).resolve().parents[3]
STAGES = ("state", "preflight", "training")
AT = {"rank": 0, "plane": "rail 0", "task": 1, "group": 0}


def of_gloo(tmp_path, count=4, **slow):
    site = made_site(tmp_path, count, "gloo")
    return TrainingTimes(*trained(site, **slow)), site


class OneRun:
    """Provides ranks that have performed all tasks before; a second session is asked of nobody."""

    def __init__(self, ran):
        self.runs = [ran]
        self.asked = []

    def run(self, jobs, limit_s=None):
        raise AssertionError(f"{jobs} in one go, {limit_s}")

    def perform(self, tasks):
        self.asked += tasks.values()

    @contextmanager
    def open(self, jobs, limit_s=None):
        del limit_s
        assert not self.asked, "pairs are asked"
        yield self
        assert self.asked == list(jobs[0].tasks)


def stage(times, site):
    return stages_training.run_training(site, OneRun(times.ran), Options())
