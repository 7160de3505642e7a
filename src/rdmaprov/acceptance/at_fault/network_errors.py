"""Which rail, path or leaf failed, by NCCL's words: completions with error, failed connects.

An end that fails on the paths to several others is at fault itself; a path that fails alone leaves
both of its ends open. What one end alone says of it is no proof. A rank that saw an error ends, and
what its neighbors then see of it says nothing about the network: reports about a node that reported
another one before are left out.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rdmaprov.acceptance.ranks.nccl_logs import log_files
from rdmaprov.acceptance.ranks.rail_map import Place, RailMap
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.completion import CompletionError, find_completions

# Beyond this, no list of paths helps anybody: the fabric itself is at fault. Our choice.
MOST_PATHS = 16
_FEWEST = 2
_MOST_ALONE = 2  # beyond it, paths of one node to others are that node's fault
_MARKS = ("Got completion", "ibv_modify_qp failed")
# NCCL, ncclIbAsyncThreadMain of src/transport/net_ib.cc: to 2.22 (older ones do not name the
# device), 2.23 to 2.28.3, later ones.
_PORT_ERROR = re.compile(
    r"NET/IB : (?:([\w.-]{1,64}):\d+ )?Got (?:non-fatal )?async (?:error )?event ?: port error"
)
_PORT_REMEDY = "Check the rail's cable, transceiver and switch port: link_downed, dmesg -T, mlxlink"
_REMEDY = (
    "Check cable, switch port and counters at both ends (rdmaprov validate), then the path alone: "
    "ib_write_bw between these two HCAs"
)


@dataclass(frozen=True)
class PathError:
    """A path over which RDMA failed, as one of its ends saw it."""

    local: Place
    remote: Place  # the other end; its node is empty if no node has the address
    error: CompletionError

    @property
    def ends(self) -> frozenset[Place]:
        """Return both ends."""
        return frozenset((self.local, self.remote))

    @property
    def text(self) -> str:
        """Return what was seen, with the addresses as NCCL wrote them."""
        error = self.error
        to = error.remote_gid or error.peer or "unknown"
        by = f" by {error.hca}" if error.hca else ""
        if error.call:
            ends = f"{_name(self.local)}{by} to {_name(self.remote) or to} ({to})"
            return f"{ends} cannot be connected: {error.said}"
        return (
            f"{_name(self.local)} has status {error.status} (vendor error {error.vendor_err}: "
            f"{error.meaning}){by} to {_name(self.remote) or to} ({to})"
        )


def _name(place: Place) -> str:
    node, rail = place
    return f"{node} rail {rail}" if node and rail is not None else node


def path_errors(ran: JobRun, places: RailMap) -> list[PathError]:
    """Return each path that failed, once for each end that saw it.

    NCCL's words are in what a rank reports, in what it writes to standard error, and in its log.
    """
    said: dict[str, list[str]] = defaultdict(list)
    for event in ran.events_of("failed"):
        said[ran.job.node_of(event["rank"])].append(event["error"])
    found: dict[tuple[Place, Place], PathError] = {}
    for name, node in ran.nodes.items():
        texts = [*said[name], node.errors, *(text for _, text in log_files(node))]
        for error in _completions(name, texts):
            one = _locate(name, error, places)
            found.setdefault((one.local, one.remote), one)
    return list(found.values())


def _completions(name: str, texts: Iterable[str]) -> list[CompletionError]:
    """Return a node's completions with error; those that only follow others if there are none."""
    lines = "\n".join(
        line for text in texts for line in text.splitlines() if any(each in line for each in _MARKS)
    )
    found = list(find_completions(lines, name))
    return [error for error in found if not error.is_flush] or found


def _locate(name: str, error: CompletionError, places: RailMap) -> PathError:
    """Return the ends of a path that a node says to have failed; its own end is on itself."""
    own = places.place_of(error.local_gid)
    rail = own[1] if own and own[0] == name else places.hcas.get((name, error.hca))
    far = places.place_of(error.remote_gid)
    if far is None and (by_peer := places.place_of(error.peer)):
        far = by_peer[0], rail  # the peer's address tells the node; rails connect equal ones
    return PathError((name, rail), far or ("", None), error)


def port_errors(ran: JobRun, places: RailMap) -> frozenset[Place]:
    """Return the rails whose own NIC told NCCL that the port went down; None: not which one."""
    return frozenset(
        (name, places.hcas.get((name, hca)))
        for name, node in ran.nodes.items()
        for _, text in log_files(node)
        for hca in _PORT_ERROR.findall(text)
    )


def findings(
    errors: Collection[PathError], places: RailMap, ports: Collection[Place] = ()
) -> list[Finding]:
    """Return what failed: a leaf, a port, a node, a rail, else the paths with both of their ends.

    Args:
        ports: rails whose port went down: the other ends of their paths are victims.
    """
    roots = _first_reports(errors)
    if leaf := _common_leaf(roots, places):
        nodes = places.nodes_of(leaf)
        what = f"RDMA fails between leaf {leaf} and the others: {roots[0].text}"
        return [
            Finding(
                "rdma.failed",
                what,
                f"Check leaf {leaf} and its uplinks",
                level="leaf",
                nodes=nodes,
                leaf=leaf,
            )
        ]
    down = {end: each for each in roots for end in each.ends if _is_down(end, ports)}
    if down:
        left = [each for each in roots if not each.ends & down.keys()]
        return [*_port_findings(down), *(findings(left, places) if left else ())]
    if crossed := _crossed_rails(roots):
        return [crossed]
    mutual = {each.ends for each in roots for other in roots if each.local == other.remote}
    ends, paths = _split(roots)
    found = list(_end_findings(ends, places))
    for node in _common_nodes(paths):
        own = [path for path in paths if any(name == node for name, _ in path.ends)]
        paths = [path for path in paths if path not in own]
        what = f"RDMA fails to {len(own)} others, by several rails: {own[0].text}"
        found.append(Finding("rdma.failed", what, _remedy(own[0]), node))
    if len(paths) > MOST_PATHS:
        what = f"RDMA fails on {len(paths)} paths without a common end: {paths[0].text}"
        return [
            *found,
            Finding("rdma.failed", what, "Check the switches between the nodes", level="fleet"),
        ]
    return found + [_path_finding(path, is_mutual=path.ends in mutual) for path in paths]


def _crossed_rails(errors: Collection[PathError]) -> Finding | None:
    """Return that rails are not connected to each other, if all failures are of such paths."""
    rails = {(each.local[1], each.remote[1]) for each in errors if each.error.call}
    if len(errors) < _FEWEST or len(rails) == 0 or not all(each.error.call for each in errors):
        return None
    if any(None in pair or pair[0] == pair[1] for pair in rails):
        return None
    first = next(iter(errors))
    what = f"NCCL connects different rails, which do not reach each other: {first.text}"
    return Finding("rdma.failed", what, _remedy(first), level="fleet")


def _common_nodes(paths: Collection[PathError]) -> list[str]:
    """Return the node that fails to more than two others by different rails, if it is one."""
    partners: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        names = {node for node, _ in path.ends if node}
        for name in names:
            partners[name] |= names - {name}
    most = [name for name, others in partners.items() if len(others) > _MOST_ALONE]
    return most if len(most) == 1 else []


def _remedy(path: PathError) -> str:
    own = path.error.remedy
    return own[:1].upper() + own[1:] if path.error.call else _REMEDY


def _is_down(end: Place, ports: Collection[Place]) -> bool:
    return end in ports or (end[0], None) in ports


def _port_findings(down: Mapping[Place, PathError]) -> Iterator[Finding]:
    for (node, rail), path in down.items():
        what = f"its port went down during the run (NCCL's log), and RDMA fails: {path.text}"
        yield Finding("link.down", what, _PORT_REMEDY, node, rail)


def _first_reports(errors: Collection[PathError]) -> list[PathError]:
    """Return the reports that cannot follow from the end of a rank that reported another path."""
    reported: dict[str, set[str]] = defaultdict(set)
    for error in errors:
        reported[error.local[0]].add(error.remote[0])
    first = [
        error
        for error in errors
        if not reported.get(error.remote[0]) or error.local[0] in reported[error.remote[0]]
    ]
    return first or list(errors)


def _common_leaf(errors: Collection[PathError], places: RailMap) -> str:
    """Return the leaf with most of its nodes among the ends, and an end in every path."""
    shared = [{places.leaves.get(node, "") for node, _ in error.ends} - {""} for error in errors]
    candidates = set.intersection(*shared) if shared else set()
    ends = {node for error in errors for node, _ in error.ends}
    full = [
        leaf
        for leaf in candidates
        if len(ends & set(of := places.nodes_of(leaf))) > max(1, len(of) // 2) and not ends <= {*of}
    ]
    return full[0] if len(full) == 1 else ""


def _split(errors: Collection[PathError]) -> tuple[dict[Place, list[PathError]], list[PathError]]:
    """Return the ends that fail towards several others, with their paths, and the other paths."""
    left = {error.ends: error for error in errors}
    found: dict[Place, list[PathError]] = {}
    while left:
        count = Counter(end for ends in left for end in ends if end[0])
        most = max(count.values(), default=0)
        top = [end for end, times in count.items() if times == most]
        # Of two ends of one path with as many others each, nothing tells which one it is.
        if most < _FEWEST or any(len(ends & set(top)) > 1 for ends in left):
            break
        for end in top:
            found[end] = [error for ends, error in left.items() if end in ends]
        left = {ends: error for ends, error in left.items() if not ends & set(top)}
    return found, list(left.values())


def _end_findings(ends: dict[Place, list[PathError]], places: RailMap) -> Iterator[Finding]:
    """Yield the ends at fault; a node all of whose rails are is named as a whole."""
    by_node: dict[str, list[int | None]] = defaultdict(list)
    for node, rail in ends:
        by_node[node].append(rail)
    for node, rails in by_node.items():
        errors = [error for rail in rails for error in ends[node, rail]]
        what = f"RDMA fails on all {len(errors)} paths that are known to have failed"
        if len(rails) > 1 and len(rails) >= places.rails.get(node, 1):
            text = f"{what}, on all its rails: {errors[0].text}"
            yield Finding("rdma.failed", text, _remedy(errors[0]), node)
            continue
        for rail in rails:
            own = ends[node, rail]
            what = f"RDMA fails to {len(own)} others: {own[0].text}"
            yield Finding("rdma.failed", what, _remedy(own[0]), node, rail)


def _path_finding(path: PathError, *, is_mutual: bool) -> Finding:
    """Return the finding that names both ends of a path, or the one that is known."""
    nodes = tuple(sorted({node for node, _ in path.ends if node}))
    level = "pair" if len(nodes) == _FEWEST else "rail"
    what = f"RDMA fails: {path.text}"
    return Finding(
        "rdma.failed",
        what,
        _remedy(path),
        rail=path.local[1],
        proven=is_mutual,
        level=level,
        nodes=nodes,
    )
