"""Nodes whose NCCL takes another network than the others': they wait for each other for ever."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rdmaprov.acceptance.ranks.nccl_logs import log_files
from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.finding.finding import Finding
from rdmaprov.words import quantity

# NCCL, src/init.cc: what a communicator uses; real lines are in tests/fixtures/nccl.
_LINE = re.compile(r"NCCL INFO Using network (\w{1,40})")


def findings(ran: JobRun) -> Iterator[Finding]:
    """Yield the nodes whose logs name a network that most others do not use.

    Nodes without a log are neither counted nor accused; of two halves, nobody is.
    """
    seen = {name: used for name, node in ran.nodes.items() if (used := _networks(node))}
    count = Counter(seen.values())
    usual, many = max(count.items(), key=lambda each: each[1], default=(frozenset(), 0))
    if 2 * many <= len(seen):
        return
    for name, used in seen.items():
        if used != usual:
            what = (
                f"NCCL uses the network {', '.join(sorted(used))} here and "
                f"{', '.join(sorted(usual))} on {quantity(many, 'other node')} (NCCL's log)"
            )
            remedy = (
                f"On {name}, check NCCL_NET, NCCL_NET_PLUGIN and NCCL_IB_DISABLE (environment, "
                "/etc/nccl.conf) and the devices: ibv_devinfo"
            )
            yield Finding("nccl.network", what, remedy, name, level="node")


def _networks(node: NodeRun) -> frozenset[str]:
    return frozenset(each for _, text in log_files(node) for each in _LINE.findall(text))
