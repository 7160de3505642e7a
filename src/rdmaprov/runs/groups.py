"""Many nodes in few words: grouped by text, counted by state, names folded."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from rdmaprov.finding.finding import Finding
from rdmaprov.words import quantity

_MOST_PARTS = 6
# In another name NodeSet would find an operator, a wildcard or a digit that is not ASCII.
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,255}")
_NUMBER = re.compile(r"[0-9]{0,9}\Z")  # that ends a name, and that Slurm can count
_TOKEN = re.compile(r"[\w.-]+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f:]*::[0-9a-f:]*\b")
# Behind a remedy: where a person logs in, or removes a key.
_LOGIN = re.compile(r"\b(ssh(?: -p \d+)?|ssh-keygen -R) [^\s,;()]+")
_RAIL = re.compile(r"\brail \d+\b")
# The part before a message's first colon, such as `gpu07 left_port3 mlx5_0 (rail 0)`, and names
# that systemd and rdma-core give (systemd.net-naming-scheme(7), 60-rdma-persistent-naming.rules).
_IN_HEAD = re.compile(r"[A-Za-z]\w*\d\b")
_DEVICE = re.compile(
    r"\b(?:en[opsx]\d\w*|eth\d+|bond\d+|ib[ps]?\d\w*|mlx[45]_(?:bond_)?\d+|rocep\d\w*)\b"
)


def group_by_text(texts: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return each text with the nodes that have it, from the texts of each node."""
    nodes: dict[str, list[str]] = {}
    for node, lines in texts.items():
        for line in dict.fromkeys(lines):
            nodes.setdefault(line, []).append(node)
    return nodes


def group_alike(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the text of each kind, in its first node's words, with the nodes that have it."""
    mask, first = name_masker(texts.keys()), dict[str, str]()
    kinds = {node: first.setdefault(mask(text), text) for node, text in texts.items()}
    return group_by_text({node: [text] for node, text in kinds.items()})


def merge_lost(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings, of nodes that are lost for one reason a single one, in the first's words."""
    merged: dict[object, Finding] = {}
    names = {each.node for each in findings if each.unreachable}
    mask = name_masker(names)
    for each in findings:
        key = (mask(each.what), mask(each.remedy)) if each.unreachable else id(each)
        first = merged.setdefault(key, each)
        if first is not each:
            nodes = (*first.nodes, *each.nodes)
            merged[key] = replace(first, node="", nodes=nodes, level="node")
    return list(merged.values())


def label(nodes: Sequence[str], total: int) -> str:
    """Return some nodes of a run by name, or all of them by their number."""
    if len(nodes) == 1:
        return nodes[0]
    if len(nodes) == total:
        return quantity(total, "node")
    return f"{quantity(len(nodes), 'node')} ({fold_names(nodes)})"


def count_states(
    states: Mapping[str, str], words: Mapping[str, str], named: Collection[str] = ()
) -> str:
    """Return how many nodes are in which state.

    >>> count_states({"n1": "ok", "n2": "bad"}, {"ok": "passed", "bad": "failed"}, ["bad"])
    '2 nodes: 1 passed, 1 failed (n2)'

    Args:
        words: how to call each state, in the order of the text.
        named: the states whose nodes are named, unless all nodes are in one of them.
    """
    parts = []
    for state, word in words.items():
        nodes = [node for node, own in states.items() if own == state]
        names = f" ({fold_names(nodes)})" if state in named and len(nodes) < len(states) else ""
        parts += [f"{len(nodes):,} {word}{names}"] if nodes else []
    return f"{quantity(len(states), 'node')}: {', '.join(parts)}"


def fold_names(nodes: Iterable[str]) -> str:
    """Return names on one short line, as ClusterShell and Slurm write and read them.

    >>> fold_names(["gpu01", "gpu02", "gpu03", "login"])
    'gpu[01-03],login'
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    names = set(nodes)
    plain = {name for name in names if _PLAIN.fullmatch(name)}
    ranges = NodeSet.fromlist(fold_last(plain), resolver=RESOLVER_NOGROUP).contiguous()
    parts = list(islice(ranges, _MOST_PARTS))
    odd = sorted(names - plain)[: _MOST_PARTS - len(parts)]
    shown = NodeSet(resolver=RESOLVER_NOGROUP)
    for part in parts:
        shown.update(part)
    rest = len(names) - len(shown) - len(odd)
    return ",".join(filter(None, [str(shown), *odd])) + (f" and {rest} more" if rest else "")


def fold_last(names: Iterable[str]) -> list[str]:
    """Return names, of those that end with a number and differ in nothing else one range.

    >>> fold_last(["r1-n01", "r1-n02", "r2-n01", "r1-n01-ib"])
    ['r1-n[01-02]', 'r2-n01', 'r1-n01-ib']
    """
    from ClusterShell.RangeSet import RangeSet

    numbers: dict[tuple[str, bool], list[str]] = {}
    for name in dict.fromkeys(names):
        number = _NUMBER.search(name)[0]  # type: ignore[index] # it may be empty
        numbers.setdefault((name.removesuffix(number), bool(number)), []).append(number)
    return [
        text + (own[0] if len(own) == 1 else f"[{RangeSet.fromlist(own)}]")
        for (text, _), own in numbers.items()
    ]


def name_masker(names: Collection[str]) -> Callable[[str], str]:
    """Return a function that masks the parts of a message that differ by node or device.

    >>> name_masker({"gpu1"})("gpu1 ens1: MTU is 1500, wanted 9000 (/sys/class/net/ens1/mtu)")
    '* *: MTU is 1500, wanted 9000 (/sys/class/net/*/mtu)'
    """
    known = frozenset(names)

    def mask(text: str) -> str:
        first, _, rest = text.partition(" ")
        devices = set(_IN_HEAD.findall(rest.partition(":")[0])) if first in known else set()
        odd = known | devices
        text = _LOGIN.sub(r"\1 *", text) if "ssh" in text else text
        text = _DEVICE.sub("*", _ADDRESS.sub("*", _RAIL.sub("rail *", text)))
        return _TOKEN.sub(lambda found: "*" if found[0] in odd else found[0], text)

    return mask


def subject(test: str) -> str:
    """Return what a test is about: its file's name without what all of them have.

    >>> subject("test_mtu.py::test_mtu_running[gpu07-rail3]")
    'mtu'
    """
    file = test.partition("::")[0].rpartition("/")[2]
    return file.removesuffix(".py").removeprefix("test_")
