"""Whether the GPUs of nodes are all there, whole and free; and whether they stayed free."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.runs.groups import fold_names
from rdmaprov.words import quantity, some

# A driver and an idle daemon keep less than this of a GPU's memory.
MIN_FREE_SHARE = 0.95
# Where no GPU tells its memory, as where it shares the CPU's: the least that a GPU of a training
# fleet has (V100, 16 GB), halved. Our choice.
_UNTOLD_BYTES = 8 << 30
# nvidia-smi takes 0.1 s with persistence mode (docs/one-gpu.md), and 30 s on eight GPUs without
# (github.com/Azure/aks-gpu/pull/105); between them, our choice.
_SLOW_S = 5.0
_PERSIST = (
    "without persistence mode each call initializes all GPUs: run there nvidia-smi -pm 1, and "
    "write peermem_gpu_persistence: on"
)


def findings(node: Node, seen: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what keeps a node's GPUs from a run; `seen`: its `gpus`, as the reader returns them."""
    for line in seen.get("lost", ()):
        remedy = f"On {node.name}, look for Xid 79: dmesg -T; reboot it, and replace the GPU"
        yield Finding("gpu.lost", f"a GPU is lost (nvidia-smi: {line})", remedy, node.name)
    if seen["error"]:
        what = f"its GPUs: nvidia-smi failed: {seen['error']}"
        remedy = f"On {node.name}, run: nvidia-smi"
        remedy += f"; {_PERSIST}" if seen.get("took_s", 0) > _SLOW_S else ""
        yield Finding("gpu.unread", what, remedy, node.name, proven=False)
        return
    wanted, there = int(node.get("fabric_gpu_count") or 0), len(seen["gpus"])
    if there == 0 or (wanted and there != wanted):
        what = f"{there} GPUs, expected {wanted or 'at least 1'} (fabric_gpu_count; nvidia-smi)"
        values = {"count": there, "wanted": wanted}
        yield Finding("gpu.count", what, _xid(node.name), node.name, values=values)
    for process in seen["processes"]:
        what = f"a GPU is in use by process {process} (nvidia-smi)"
        yield Finding("gpu.in-use", what, f"Drain {node.name}, or end that process", node.name)
    for gpu in seen["gpus"]:
        yield from _gpu_findings(node.name, gpu, bool(seen["processes"]))


def slow_notes(known: Mapping[str, Document]) -> list[str]:
    """Return on which nodes nvidia-smi is slow, and what makes it fast; nothing if it is."""
    took = {name: float(answer["gpus"].get("took_s", 0)) for name, answer in known.items()}
    slow = {name: seconds for name, seconds in took.items() if seconds > _SLOW_S}
    if not slow:
        return []
    where = f"{quantity(len(slow), 'node')} ({some(tuple(slow), 4)})"
    return [f"nvidia-smi took up to {max(slow.values()):.0f} s on {where}; {_PERSIST}"]


def _xid(node: str) -> str:
    return f"On {node}, look for Xid errors: dmesg -T"


def _gpu_findings(node: str, gpu: Mapping[str, Any], is_used: bool) -> Iterator[Finding]:
    if gpu.get("mig"):
        what = f"GPU {gpu['index']} is split (nvidia-smi: mig.mode.current is Enabled)"
        remedy = f"On {node}, run: nvidia-smi -i {gpu['index']} -mig 0"
        yield Finding("gpu.split", what, remedy, node, part=f"GPU {gpu['index']}")
    memory = _memory_mib(gpu)
    if memory is not None and not is_used and memory[0] < MIN_FREE_SHARE * memory[1]:
        what = (
            f"GPU {gpu['index']}: {memory[0]:.0f} of {memory[1]:.0f} MiB are free (nvidia-smi), "
            f"expected at least {100 * MIN_FREE_SHARE:.0f} %"
        )
        remedy = f"On {node}, find the process that uses it: fuser -v /dev/nvidia*"
        values = {"free_mib": memory[0], "total_mib": memory[1]}
        part = f"GPU {gpu['index']}"
        yield Finding("gpu.memory", what, remedy, node, part=part, values=values)


def _memory_mib(gpu: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return a GPU's free and total memory, None where the driver does not say."""
    if not gpu["free_mib"] or not gpu["total_mib"]:
        return None
    return float(gpu["free_mib"]), float(gpu["total_mib"])


def odd_counts(nodes: Sequence[Node], known: Mapping[str, Document]) -> Iterator[Finding]:
    """Yield the nodes that have another number of GPUs than most, where the site says none.

    Of two numbers that equally many nodes have, the larger one is expected: a GPU gets lost, none
    is added by itself. Where the site itself says different numbers, no run takes all nodes.
    """
    told = {int(node.get("fabric_gpu_count") or 0) for node in nodes if node.name in known}
    if len(told) > 1:
        names = tuple(node.name for node in nodes if node.name in known)
        first = [n.name for n in nodes if int(n.get("fabric_gpu_count") or 0) == max(told)]
        what = f"nodes have {', '.join(map(str, sorted(told)))} GPUs (fabric_gpu_count)"
        remedy = (
            "Accept those with one number at a time, such as:"
            f" rdmaprov accept SITE --limit {shlex.quote(fold_names(first))}"
        )
        yield Finding("gpu.count", what, remedy, level="fleet", nodes=names)
    if told != {0}:
        return
    counts = {name: len(answer["gpus"]["gpus"]) for name, answer in known.items()}
    most = Counter(count for count in counts.values() if count).most_common()
    if not most:
        return
    usual = max(count for count, nodes_with in most if nodes_with == most[0][1])
    having = most[0][1]
    for name, count in counts.items():
        # None at all is a finding already.
        if count not in (0, usual):
            what = f"{count} GPUs, expected {usual} as on {having} of {len(counts)} nodes"
            values = {"count": count, "wanted": usual}
            said = f"{what} (nvidia-smi)"
            yield Finding("gpu.count", said, _xid(name), name, values=values)


def per_node(known: Mapping[str, Document]) -> int:
    """Return how many GPUs every node has, 0 if that is not one number."""
    counts = {len(answer["gpus"]["gpus"]) for answer in known.values()}
    return counts.pop() if len(counts) == 1 else 0


def free_bytes(known: Mapping[str, Document]) -> int:
    """Return the free memory of the GPU that has least, 0 without GPUs."""
    gpus = [gpu for answer in known.values() for gpu in answer["gpus"]["gpus"]]
    free = [int(memory[0]) << 20 for gpu in gpus if (memory := _memory_mib(gpu))]
    return min(free, default=_UNTOLD_BYTES if gpus else 0)


def disturbed(
    known: Mapping[str, Document], own: Mapping[str, Sequence[int]]
) -> dict[str, tuple[str, ...]]:
    """Return by node what computes on its GPUs after a run, though nothing did before it.

    Args:
        known: what the reader counted after the run.
        own: processes of the run that could not be ended, by node.
    """
    found = {}
    for name, answer in known.items():
        left = {str(pid) for pid in own.get(name, ())}
        others = [each for each in answer.get("processes", ()) if each.split(",")[0] not in left]
        if others:
            found[name] = tuple(others)
    return found


def disturbance_findings(found: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return that other jobs ran beside the run: what was measured there is not known."""
    made = []
    for name, processes in found.items():
        what = f"disturbed: during the run, process {processes[0]} began to use a GPU (nvidia-smi)"
        remedy = f"Drain {name}, then run rdmaprov accept again"
        made.append(Finding("gpu.disturbed", what, remedy, name, proven=False))
    return made
