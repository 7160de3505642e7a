"""What nodes need before anything runs on them: what is missing is named, and is no hang later."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rdmaprov.acceptance.launchers import choice
from rdmaprov.acceptance.preflight import gpus as gpu_checks
from rdmaprov.acceptance.remedies import no_answer
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding, apply_remedy
from rdmaprov.finding.kinds import UNFIT
from rdmaprov.inventory import Node, Rail
from rdmaprov.probe.errors import NodeError

# Further apart, certificates and the logs of a run no longer fit together.
MAX_SKEW_S = 2.0
# The first driver of each CUDA (docs.nvidia.com/deploy/cuda-compatibility, "Minor Version
# Compatibility").
DRIVERS = {11: 450, 12: 525, 13: 580}


def python_of(node: Node) -> str:
    """Return the interpreter that has torch, as the role torch_runtime or the launcher has it."""
    return choice.python_of(node)


def reader_request(node: Node, verb: str = "preflight") -> Document:
    """Return what the reader is asked about a node."""
    rails = [rail.described for rail in node.rails]
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
        found += _busy_findings(node, answer.get("runs", ()))
        if backend == "nccl":
            # Ranks of the acceptance above.
            own: Document = {"processes": []} if answer.get("runs") else {}
            found += gpu_checks.findings(node, {**answer["gpus"], **own})
    found += _odd_versions(known, "torch", "torch_runtime_requirements")
    if backend == "nccl":
        found += _alike("torch.driver", {name: _old_driver(said) for name, said in known.items()})
        wrong = {node.name: _other_nccl(node, known.get(node.name)) for node in nodes}
        found += _alike("nccl.version", {name: why for name, why in wrong.items() if name in known})
        found += gpu_checks.odd_counts(nodes, known)
        found += _odd_versions(known, "nccl", "torch_runtime_requirements")
    return found


def _torch_findings(node: Node, seen: Mapping[str, str]) -> Iterator[Finding]:
    elsewhere = choice.is_prepared_elsewhere(node)
    if node.get("torch_runtime_kind") == "container" and not elsewhere:
        what = "torch is in a container (torch_runtime_kind), which accept cannot start over ssh"
        remedy = "Set torch_runtime_launcher or torch_runtime_kind: venv in the site"
        yield Finding("torch.missing", what, remedy, node.name, proven=False)
    elif "torch" not in seen:
        why = (seen.get("error") or "the package is not installed").strip().splitlines()[-1:]
        what = f"no torch in {python_of(node)}: {''.join(why) or 'no message'}"
        name_it = f"Set {choice.PYTHON} in the site to the interpreter that has torch"
        remedy = name_it if elsewhere else apply_remedy("torch_runtime", node.name)
        yield Finding("torch.missing", what, remedy, node.name)


def _alike(kind: str, wrong: Mapping[str, tuple[str, str] | None]) -> Iterator[Finding]:
    """Yield what is wrong with nodes, by name its text and remedy; of most nodes alike once."""
    for text in dict.fromkeys(filter(None, wrong.values())):
        names = [name for name, own in wrong.items() if own == text]
        if len(names) > max(1, len(wrong) // 2):
            yield Finding(kind, *text, level="fleet", nodes=tuple(names))
        else:
            yield from (Finding(kind, *text, name) for name in names)


def _other_nccl(node: Node, answer: Document | None) -> tuple[str, str] | None:
    """Return that torch's NCCL is not the one that the site states, and the remedy."""
    seen, wanted = (answer or {}).get("torch", {}).get("nccl"), node.get("nccl_version") or ""
    if not seen or "nccl_version" not in node.written:
        return None
    if re.match(rf"{re.escape(wanted)}(?!\d)", seen):
        return None
    what = f"NCCL {seen} in {python_of(node)}, expected {wanted} (nccl_version)"
    return what, "Correct nccl_version, or pin NCCL in torch_runtime_requirements, and apply"


def _old_driver(answer: Document) -> tuple[str, str] | None:
    """Return why a driver cannot run torch, and the remedy; None if it can, or nothing says so.

    libcuda counts where it says its CUDA: it may be a newer one beside an older driver.
    """
    seen = answer["torch"]
    driver = str(answer.get("identity", {}).get("versions", {}).get("nvidia"))
    cuda, has = (int(seen.get(key, "0.0").partition(".")[0]) for key in ("cuda", "libcuda"))
    number = int(driver[:3]) if driver[:3].isdecimal() else 0
    is_old = has < cuda if has else 0 < number < DRIVERS.get(cuda, 0)
    if cuda not in DRIVERS or not is_old:
        return None
    said = f"has CUDA {seen['libcuda']}" if has else "is too old"
    what = f"the driver{f' {driver}' if number else ''} {said}, expected CUDA {cuda} for torch "
    what += f"{seen.get('torch', '')} (torch/version.py): driver {DRIVERS[cuda]} or later"
    remedy = f"Install driver {DRIVERS[cuda]} or later, or pin a build of torch for CUDA "
    remedy += f"{cuda - 1} (torch_runtime_requirements, torch_runtime_index_url), and apply"
    return what, remedy


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
            remedy = f"Pin one version in {variable} of the site, and apply"
            yield Finding("version.mixed", what, remedy, node, part=name)


def _rail_findings(
    node: Node, seen: Sequence[Mapping[str, Any]], backend: str
) -> Iterator[Finding]:
    # Nobody brings IPoIB up where it is not used, so its carrier says nothing of the port.
    ready = {"there": True, "carrier": True}
    for rail, is_ in zip(node.rails, seen, strict=True):
        known = {**is_, **ready} if is_["rdma"] and not node.uses_netdevs else is_
        what, remedy = _judge_rail(node.name, rail, known, backend)
        if why := is_.get("unfit"):
            yield Finding("rail.unsupported", why, UNFIT, node.name, rail.index, proven=False)
        elif what:
            yield Finding("rail.not-ready", what, remedy, node.name, rail.index)


def _judge_rail(node: str, rail: Rail, seen: Mapping[str, Any], backend: str) -> tuple[str, str]:
    """Return what is wrong with a rail, and the remedy; empty if nothing is."""
    name = seen["netdev"] or rail.name
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
        remedy = f"On {node.name}, check: chronyc tracking"
        yield Finding("clock.off", what, remedy, node.name, values={"off_s": off})


def _busy_findings(node: Node, runs: Sequence[str]) -> Iterator[Finding]:
    """Yield that another acceptance runs on a node: each would measure the other one."""
    if runs:
        what = f"another acceptance runs on it ({runs[0]})"
        remedy = f"Wait for it; if it is gone, on {node.name}: pgrep -af rdmaprov-accept"
        yield Finding("node.busy", what, remedy, node.name, proven=False)


def gpus_per_node(answers: Mapping[str, Document | NodeError]) -> int:
    """Return how many GPUs every node has, 0 if that is not one number."""
    return gpu_checks.per_node(_known(answers))


def free_bytes(answers: Mapping[str, Document | NodeError]) -> int:
    """Return the free memory of the GPU that has least, 0 without GPUs."""
    return gpu_checks.free_bytes(_known(answers))


def _known(answers: Mapping[str, Document | NodeError]) -> dict[str, Document]:
    return {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
