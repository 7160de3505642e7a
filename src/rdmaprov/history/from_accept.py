"""A run of `accept` → what it measured by stage, node, rail and size; versions and findings."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.history import parts
from rdmaprov.history.digest import Fact, RunDigest, RunSeries, Trouble
from rdmaprov.history.troubles import key_maker
from rdmaprov.node.standing import NIC_WORDS, VERSION_WORDS
from rdmaprov.runs.results import ALONE

SENT = "sent while busy"  # of the samples of each rail
FLEET = "bus bandwidth of "  # and the name of a plane without a single rail
_GB_S, _US = "GB/s", "us"
_OK, _FAILED = 0, 1


def add(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what an acceptance measured and found."""
    nodes = list(parts.by_name(data, "nodes"))
    names = [name for name, _ in nodes]
    backend, world = parts.text(data, "backend"), parts.index(data, "world_size") or 0
    scope = f"{backend}, {world} ranks"
    digest.stages = {
        parts.text(each, "name"): parts.text(each, "state")
        for each in parts.mappings(data, "stages")
    }
    for source in (_planes, _stages, _samples, _paths):
        digest.values.update(source(data, scope, names))
    for name, own in nodes:
        digest.facts += _facts(name, own)
    digest.troubles += _findings(data, names)
    measured = any(True for _ in parts.items(data, "planes"))
    passed = "connected over gloo" if backend == "gloo" else "passed"
    rest = passed if measured and digest.exit_code in (_OK, _FAILED) else "unknown"
    digest.states = dict.fromkeys(names, rest)
    for each in sorted(digest.troubles, key=lambda each: each.proven):
        if each.node in digest.states:
            digest.states[each.node] = "failed" if each.proven else "unknown"


def _planes(
    data: Mapping[str, Any], scope: str, _names: list[str]
) -> Iterator[tuple[RunSeries, float]]:
    for plane in parts.mappings(data, "planes"):
        name = parts.text(plane, "name")
        # Runs of 0.1.0 have the rail in the name alone.
        old = name.removeprefix("rail ") if "rail" not in plane else ""
        rail = int(old) if old.isdecimal() else parts.index(plane, "rail")
        what = "bus bandwidth" if rail is not None else f"{FLEET}{name}"
        for row in parts.mappings(plane, "rows"):
            size, rate = parts.index(row, "bytes"), parts.number(row, "busbw_gb_s")
            if parts.truth(row, "in_place", default=True) and size and rate is not None:
                yield RunSeries("fleet", what, "", rail, size, _GB_S, scope), rate


def _stages(
    data: Mapping[str, Any], scope: str, names: list[str]
) -> Iterator[tuple[RunSeries, float]]:
    for stage in parts.mappings(data, "stages"):
        for each in parts.mappings(stage, "numbers"):
            what, rate = parts.text(each, "what"), parts.number(each, "gb_s")
            node = what.removesuffix(ALONE)
            if rate is not None and node in names:
                alone = "bus bandwidth alone"
                yield RunSeries(parts.text(stage, "name"), alone, node, None, 0, _GB_S, ""), rate
            elif rate is not None and what != "slowest path over RDMA":  # a share of good paths
                yield RunSeries(parts.text(stage, "name"), what, "", None, 0, _GB_S, scope), rate


def _samples(
    data: Mapping[str, Any], scope: str, _names: list[str]
) -> Iterator[tuple[RunSeries, float]]:
    for each in parts.mappings(parts.mapping(data, "samples"), "rails"):
        node, rail = parts.text(each, "node"), parts.index(each, "rail")
        rate = parts.number(each, "mean_gb_s")
        if node and rail is not None and rate is not None:
            yield RunSeries("fleet", SENT, node, rail, 0, _GB_S, scope), rate


def _paths(
    data: Mapping[str, Any], _scope: str, _names: list[str]
) -> Iterator[tuple[RunSeries, float]]:
    """Yield the medians of the paths that begin, and of those that end, at each rail."""
    found: dict[RunSeries, list[float]] = defaultdict(list)
    paths = parts.mapping(data, "paths")
    names = parts.texts(paths, "names")
    for row in parts.items(paths, "rows"):
        if not isinstance(row, list) or len(row) != 8:
            raise parts.Damaged("paths")
        keys = ("sender", "receiver", "rail", "into", "gb_s", "share", "us", "error")
        own = dict(zip(keys, row, strict=True))
        sender, receiver, rail, into = (_place(own, key) for key in keys[:4])
        if max(sender, receiver) >= len(names):
            raise parts.Damaged("paths")
        rate, us = parts.number(own, "gb_s"), parts.number(own, "us")
        for what, node, at, unit, value in (
            ("sends over RDMA", sender, rail, _GB_S, rate),
            ("receives over RDMA", receiver, into, _GB_S, rate),
            ("latency over RDMA", sender, rail, _US, us),
        ):
            if value is not None:
                found[RunSeries("pairs", what, names[node], at, 0, unit, "")].append(value)
    for series, values in found.items():
        yield series, statistics.median(values)


def _place(own: Mapping[str, Any], key: str) -> int:
    found = parts.index(own, key)
    if found is None:
        raise parts.Damaged("paths")
    return found


def _facts(name: str, own: Mapping[str, Any]) -> Iterator[Fact]:
    for key in ("torch", "nccl"):
        if version := parts.text(own, key):
            yield Fact(name, {"nccl": "NCCL"}.get(key, key), version)
    versions = parts.mapping(own, "versions")
    for key, word in VERSION_WORDS.items():
        if version := parts.text(versions, key):
            yield Fact(name, word, version)
    for rail, version in enumerate(parts.texts(own, "firmware")):
        if version:
            yield Fact(name, f"rail {rail}: {NIC_WORDS['firmware']}", version)


def _findings(data: Mapping[str, Any], names: list[str]) -> Iterator[Trouble]:
    key_of = key_maker(set(names))
    for each in parts.mappings(data, "findings"):
        what, rail = parts.text(each, "what"), parts.index(each, "rail")
        proven = parts.truth(each, "proven", default=True)
        nodes = parts.texts(each, "nodes") or [parts.text(each, "node")]
        words = key_of(what)
        about = key_of(parts.text(each, "part"))
        key = " ".join(filter(None, (parts.text(each, "kind"), about))) or words
        for node in nodes:
            yield Trouble(key, node, rail, what, proven, words)
