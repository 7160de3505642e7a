"""What starting, connecting and asking take on a made-up fleet's clock: as usual, and where slow.

Measuring takes what its physics say, and waiting what the gate's own limits are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Seconds that a fleet's physics do not say; perftest's are of docs/paths.md, at any size."""

    start_s: float
    start_rank_s: float
    end_s: float
    question_s: float
    connect_s: float
    connect_rank_s: float
    all_to_all_rank_s: float
    perftest_s: float

    def start(self, ranks: int) -> float:
        return self.start_s + self.start_rank_s * ranks

    def connect(self, ranks: int, *, all_to_all: bool = False) -> float:
        each = self.connect_rank_s + self.all_to_all_rank_s * all_to_all
        return self.connect_s + each * ranks if ranks else 0.0


# torch on a local disk; 15, 0.005, 3 and 2 s are our choice, above what the lab's nodes need. NCCL:
# 0.7 s for 8 GPUs of a node (nccl-tests#273), about 265 s at 96k GPUs, whose slope is 11 s at 4,096
# (arXiv 2510.20171), 150 s "above a certain K GPUs" (nccl#1156): 43 s at 4,096 are between them. An
# all-to-all connects at once. perftest: six rounds of 8 s and three of 4 s, and their questions.
USUAL = Clock(15.0, 0.005, 3.0, 2.0, 2.0, 0.01, 0.0, 66.0)
# torch on a file server: 71 s of imports by 768 processes on ARCHER. A small communicator 5 s: 0.7
# to 5 s are reported, 55 s where kernels are loaded first (nccl#1646). 150 s at 4,096 ranks, the
# larger end of nccl#1156. All-to-all: 10 min by 240 GPUs (nccl-tests#78, NCCL 2.8), "quite a brutal
# operation" at 1,000 (nccl#1917); 300 s at 4,096 are our choice.
HARSH = Clock(75.0, 0.005, 3.0, 2.0, 5.0, 145 / 4096, 300 / 4096, 66.0)
CLOCKS = (USUAL, HARSH)
Cost = Callable[[Clock], float]


def slowest(costs: Sequence[Cost]) -> Cost:
    """Return what things take that run side by side."""
    return lambda clock: max((cost(clock) for cost in costs), default=0.0)
