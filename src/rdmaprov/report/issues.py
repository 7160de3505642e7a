"""The findings of a page; equal ones of many nodes are one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from rdmaprov.report.grid import ALL
from rdmaprov.report.model import ORDER, Issue, Skip, Tone
from rdmaprov.runs import groups

_NAMED = 8  # most nodes that a command names; above, the list below it has the names
_TOKEN = re.compile(r"[\w.-]+")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f:]*::[0-9a-f:]*\b")
_RAIL = re.compile(r"\brail \d+\b")
# The part before a message's first colon, such as `gpu07 left_port3 mlx5_0 (rail 0)`, and names
# that systemd and rdma-core give (systemd.net-naming-scheme(7), 60-rdma-persistent-naming.rules).
_IN_HEAD = re.compile(r"[A-Za-z]\w*\d\b")
_DEVICE = re.compile(r"\b(?:en[opsx]\d\w*|eth\d+|bond\d+|ib[ps]?\d\w*|mlx[45]_\d+|rocep\d\w*)\b")


@dataclass(frozen=True)
class Message:
    """One message of a node, or of the whole fleet.

    Args:
        tone: BAD: failed; UNKNOWN: unknown; DUE: pending; IDLE: skipped.
        where: the test, task or rail.
        node: its name; empty for the whole fleet.
        text: what is wrong.
        remedy: what to do.

    """

    tone: Tone
    where: str
    node: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Scope:
    """The nodes of a run, and how a command names them: the site and the run's own limit."""

    path: str
    limit: str | None
    nodes: Collection[str]

    def command(self, verb: str, nodes: Collection[str], *more: str) -> str:
        """Return a command line for some of the run's nodes."""
        pattern = ",".join(nodes)
        if len(nodes) == len(self.nodes):
            pattern = self.limit or ""
        limit = ["--limit", pattern] if pattern else []
        return shlex.join(["rdmaprov", verb, self.path, *limit, *more])


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
        text = _DEVICE.sub("*", _ADDRESS.sub("*", _RAIL.sub("rail *", text)))
        return _TOKEN.sub(lambda found: "*" if found[0] in odd else found[0], text)

    return mask


def group_messages(messages: Iterable[Message], site: Scope) -> tuple[Issue, ...]:
    """Return the findings; messages that differ only in node or device are one. The worst first."""
    mask = name_masker(site.nodes)
    found: dict[tuple[str, ...], list[Message]] = {}
    for each in messages:
        key = (each.tone, mask(each.text), mask(each.remedy))
        found.setdefault(key, []).append(each)
    issues = [_merge_messages(own, site) for own in found.values()]
    return tuple(sorted(issues, key=lambda each: (ORDER[each.tone], -len(each.nodes))))


def _merge_messages(own: list[Message], site: Scope) -> Issue:
    first = own[0]
    nodes = tuple(dict.fromkeys(each.node for each in own if each.node))
    where = tuple(dict.fromkeys(each.where for each in own))
    return Issue(
        first.tone,
        where[0] if len(where) == 1 else f"{where[0]} and {len(where) - 1} more",
        first.text,
        widen_remedy(first.remedy, nodes, site),
        groups.label(nodes, len(site.nodes)) if nodes else "",
        nodes,
        tuple(dict.fromkeys(each.text for each in own)),
    )


def widen_remedy(remedy: str, nodes: tuple[str, ...], site: Scope) -> str:
    """Return a remedy for one node as a remedy for all of these nodes."""
    one = f" --limit {nodes[0]}" if nodes else ""
    if len(nodes) < 2 or nodes[0] not in _TOKEN.findall(remedy):
        return remedy
    if not re.search(re.escape(one) + r"(?![\w.,-])", remedy):
        return f"{remedy} (likewise on the other nodes)"
    if len(nodes) == len(site.nodes):
        every = f" --limit {shlex.quote(site.limit)}" if site.limit else ""
        return remedy.replace(one, every)
    if len(nodes) <= _NAMED:
        return remedy.replace(one, " --limit " + shlex.quote(",".join(nodes)))
    return f"{remedy} (for all {len(nodes)} nodes, pass the names below)"


def group_skips(messages: Iterable[Message], site: Scope) -> tuple[Skip, ...]:
    """Return the skipped checks by reason, the most frequent first."""
    mask = name_masker(site.nodes)
    found: dict[str, list[Message]] = {}
    for each in messages:
        found.setdefault(mask(each.text), []).append(each)
    skips = []
    for own in found.values():
        nodes = tuple(dict.fromkeys(each.node for each in own if each.node))
        label = groups.label(nodes, len(site.nodes)) if nodes else ALL
        subjects = tuple(dict.fromkeys(each.where for each in own))
        skips.append(Skip(own[0].text or "no reason given", len(own), label, nodes, subjects))
    return tuple(sorted(skips, key=lambda each: -each.checks))
