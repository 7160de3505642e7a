"""The stage training over ranks that have performed all tasks before."""

from contextlib import contextmanager
from pathlib import Path

from tests.unit.helpers.live_ranks import made_site

from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.acceptance.stages import training as stages_training
from rdmaprov.acceptance.training.plan import TrainingPlan, training_plan
from rdmaprov.acceptance.training.times import TrainingTimes

GEMM_US, STEP_US, DATA_US, MESSAGE_US = 1000.0, 100_000.0, 50.0, 5000.0


def trained(site, **slow) -> tuple[TrainingPlan, JobRun]:
    """Return a run of a site's plan.

    Args:
        site: gloo's.
        slow: by what is slow, factors by rank: `gemm`, `cpu`, `step`; microseconds by rank: `data`;
            factors by plane's name: `message`.
    """
    plan = training_plan(site)
    ran = JobRun(plan.job)
    for name in plan.job.nodes:
        ran.nodes[name] = NodeRun(rc=0, left=())
    for task in plan.job.tasks:
        for rank, group in task.group_of.items():
            at = {"plane": task.plane, "task": task.number, "group": group, "rank": rank}
            for event in _events(task, rank, len(task.groups[group]), slow):
                ran.take_event({**at, **event})
        for rank in range(plan.job.world):
            ran.take_event({"event": "finished", "rank": rank, "task": task.number})
    return plan, ran


def _events(task, rank, many, slow):
    of = {what: slow.get(what, {}).get(rank, 1.0) for what in ("gemm", "cpu", "step")}
    data = slow.get("data", {}).get(rank, DATA_US)
    message = slow.get("message", {}).get(task.plane, 1.0)
    if task.collective == "gemm":
        us = GEMM_US * of["gemm"] * of["cpu"]
        yield {
            "event": "gemm",
            "flops": 10**7,
            "count": 9,
            "median_us": 1.2 * us,
            "best_us": us,
            "cpu_us": GEMM_US * of["cpu"],
        }
    elif task.collective == "train":
        work = STEP_US * of["gemm"] * of["cpu"] * of["step"] + data
        yield _step("alone", work, data)
        if many > 1:
            yield _step("together", work + 10 * MESSAGE_US * message, data)
    elif task.collective == "exchange":
        gb_s = 1 / (message if rank == 1 else 1.0)  # rank 1 sends slowly
        yield {"event": "pair", "to": 1 - rank, "us": 50.0, "gb_s": gb_s, "reduce_us": 80.0}
    else:
        for size in task.sizes:
            us = MESSAGE_US * message * size / task.sizes[-1]
            for in_place in (True, False):
                yield {
                    "event": "row",
                    "dtype": "float32",
                    "bytes": size,
                    "in_place": in_place,
                    "count": 5,
                    "median_us": 1.1 * us,
                    "p99_us": 2 * us,
                    "min_us": us,
                }


def _step(mode, us, data):
    rest = (us - data) / 4
    return {
        "event": "step",
        "mode": mode,
        "count": 5,
        "median_us": 1.1 * us,
        "best_us": us,
        "worst_us": 2 * us,
        "own_us": us,
        "data_us": data,
        "forward_us": rest,
        "backward_us": 2 * rest,
        "optimizer_us": rest,
    }


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
