"""What nodes need before anything runs on them: what is missing is named, and is no hang later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.acceptance.finding import Finding, apply_remedy, no_answer
from rdmaprov.acceptance.nodes import Document
from rdmaprov.inventory import Node, Rail
from rdmaprov.probe.errors import NodeError

# Further apart, certificates and the logs of a run no longer fit together.
MAX_SKEW_S = 2.0
# A driver and an idle daemon keep less than this of a GPU's memory.
MIN_FREE_SHARE = 0.95


def python_of(node: Node) -> str:
    """Return the interpreter that has torch, as the role torch_runtime leaves it."""
    if node.get("torch_runtime_kind") == "venv":
        return f"{node.get('torch_runtime_directory')}/bin/python"
    return str(node.get("torch_runtime_python"))


def reader_request(node: Node, verb: str = "preflight") -> Document:
    """Return what the reader is asked about a node."""
    rails = [{"netdev": rail.netdev, "pci": rail.pci} for rail in node.rails]
    return {"verb": verb, "python": python_of(node), "rails": rails}


def findings(
    nodes: Sequence[Node],
    answers: Mapping[str, Document | NodeError],
    backend: str,
    asked_s: tuple[float, float],
) -> list[Finding]:
    """Return why these nodes cannot run together.

    Args:
        nodes: in the site's order.
        answers: what the reader returned for each.
        backend: `nccl` or `gloo`.
        asked_s: this machine's clock before and after they were asked.

    """
    found: list[Finding] = []
    known: dict[str, Document] = {}
    for node in nodes:
        answer = answers[node.name]
        if isinstance(answer, NodeError):
            found.append(no_answer(answer, node.name))
            continue
        known[node.name] = answer
        found += _torch_findings(node, answer["torch"])
        found += _rail_findings(node, answer["rails"], backend)
        found += _clock_findings(node, answer["time"], asked_s)
        if backend == "nccl":
            found += _gpu_findings(node, answer["gpus"])
    found += _odd_versions(known, "torch", "torch_runtime_requirements")
    if backend == "nccl":
        found += _odd_versions(known, "nccl", "torch_runtime_requirements")
    return found


def _torch_findings(node: Node, seen: Mapping[str, str]) -> Iterator[Finding]:
    if node.get("torch_runtime_kind") == "container":
        what = "torch is in a container (torch_runtime_kind), which accept cannot start"
        yield Finding(what, "Set torch_runtime_kind: venv in the site", node.name, proven=False)
    elif "torch" not in seen:
        why = (seen.get("error") or "the package is not installed").strip().splitlines()[-1:]
        what = f"no torch in {python_of(node)}: {''.join(why) or 'no message'}"
        yield Finding(what, apply_remedy("torch_runtime", node.name), node.name)


def _odd_versions(known: Mapping[str, Document], name: str, variable: str) -> Iterator[Finding]:
    """Yield the nodes whose version is not that of most nodes."""
    versions = {
        node: answer["torch"].get(name, "none")
        for node, answer in known.items()
        if "torch" in answer["torch"]
    }
    counts = Counter(versions.values()).most_common()
    if len(counts) < 2:
        return
    most = counts[0][0]
    for node, version in versions.items():
        if version != most:
            what = (
                f"{name} {version}, expected {most} as on {counts[0][1]} of {len(versions)} nodes"
            )
            yield Finding(what, f"Pin one version in {variable} of the site, and apply", node)


def _rail_findings(
    node: Node, seen: Sequence[Mapping[str, Any]], backend: str
) -> Iterator[Finding]:
    for rail, is_ in zip(node.rails, seen, strict=True):
        what, remedy = _judge_rail(node.name, rail, is_, backend)
        if what:
            yield Finding(what, remedy, node.name, rail.index)


def _judge_rail(node: str, rail: Rail, seen: Mapping[str, Any], backend: str) -> tuple[str, str]:
    """Return what is wrong with a rail, and the remedy; empty if nothing is."""
    name = seen["netdev"] or rail.netdev or rail.pci
    if not seen["there"]:
        return f"{name} does not exist (fabric_rails)", f"On {node}, check: ip link; lspci"
    if not seen["carrier"]:
        return (
            f"{name} is down (/sys/class/net/{name}/carrier)",
            "Check the cable and the switch port",
        )
    if seen["rdma"] and seen["state"] != "ACTIVE":
        where = f"/sys/class/infiniband/{seen['rdma']}/ports/1/state"
        what = f"{seen['rdma']} is {seen['state']}, expected ACTIVE ({where})"
        return what, f"On {node}, check: rdma link"
    if backend == "nccl" and not seen["rdma"]:
        return f"{name} has no RDMA device", apply_remedy("ofed,mlx5", node)
    wanted = str(rail.address.ip) if rail.address else ""
    if wanted and wanted not in seen["addresses"]:
        has = ", ".join(seen["addresses"]) or "none"
        return (
            f"{name} has the address {has}, expected {wanted} (fabric_rails; ip address)",
            apply_remedy("fabric", node),
        )
    if backend == "gloo" and not wanted:
        return f"{name} has no address in the site, and gloo needs one", "Add it to fabric_rails"
    return "", ""


def _clock_findings(node: Node, time_s: float, asked_s: tuple[float, float]) -> Iterator[Finding]:
    """Yield a clock that was read outside of the time in which it was asked."""
    off = max(asked_s[0] - time_s, time_s - asked_s[1], 0.0)
    if off > MAX_SKEW_S:
        what = f"its clock is {off:.1f} s off the controller's, expected at most {MAX_SKEW_S:g} s"
        yield Finding(what, f"On {node.name}, check: chronyc tracking", node.name)


def _gpu_findings(node: Node, seen: Mapping[str, Any]) -> Iterator[Finding]:
    if seen["error"]:
        what = f"its GPUs: nvidia-smi failed: {seen['error']}"
        yield Finding(what, f"On {node.name}, run: nvidia-smi", node.name, proven=False)
        return
    wanted, there = int(node.get("fabric_gpu_count") or 0), len(seen["gpus"])
    if there == 0 or (wanted and there != wanted):
        what = f"{there} GPUs, expected {wanted or 'at least 1'} (fabric_gpu_count; nvidia-smi)"
        yield Finding(what, f"On {node.name}, look for Xid errors: dmesg -T", node.name)
    for process in seen["processes"]:
        what = f"a GPU is in use by process {process} (nvidia-smi)"
        yield Finding(what, f"Drain {node.name}, or end that process", node.name)
    for gpu in seen["gpus"]:
        free, total = float(gpu["free_mib"]), float(gpu["total_mib"])
        if not seen["processes"] and free < MIN_FREE_SHARE * total:
            what = (
                f"GPU {gpu['index']}: {free:.0f} of {total:.0f} MiB are free (nvidia-smi), "
                f"expected at least {100 * MIN_FREE_SHARE:.0f} %"
            )
            remedy = f"On {node.name}, find the process that uses it: fuser -v /dev/nvidia*"
            yield Finding(what, remedy, node.name)


def gpus_per_node(answers: Mapping[str, Document | NodeError]) -> int:
    """Return how many GPUs every node has, 0 if that is not one number."""
    counts = {
        len(answer["gpus"]["gpus"])
        for answer in answers.values()
        if not isinstance(answer, NodeError)
    }
    return counts.pop() if len(counts) == 1 else 0


def free_bytes(answers: Mapping[str, Document | NodeError]) -> int:
    """Return the free memory of the GPU that has least, 0 without GPUs."""
    free = [
        int(float(gpu["free_mib"])) << 20
        for answer in answers.values()
        if not isinstance(answer, NodeError)
        for gpu in answer["gpus"]["gpus"]
    ]
    return min(free, default=0)
