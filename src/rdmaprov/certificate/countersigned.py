"""The countersignatures of nodes: of their host keys, and of what the certificate says of them."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rdmaprov.boundary import RIGHT, OddAnswer, parse_answer
from rdmaprov.certificate import ssh_signature
from rdmaprov.certificate.statement import NODE, canonical, node_text, sections
from rdmaprov.finding.finding import Finding

_MOST_NAMED = 5
_SIDE_BY_SIDE = 8


def countersignature_objections(predicate: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what nodes did not sign, or signed otherwise."""
    nodes, entries = predicate["nodes"], predicate["countersignatures"]
    for name in [*nodes.keys() - entries.keys(), *entries.keys() - nodes.keys()]:
        yield _unsigned(name, "is missing in nodes or in countersignatures")
    shared = sections(predicate)
    both = [name for name in nodes if name in entries]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = pool.map(lambda name: list(_of_node(predicate, shared, name)), both)
    yield from dict.fromkeys(each for own in found for each in own)


def _of_node(
    predicate: Mapping[str, Any], shared: Mapping[str, str], name: str
) -> Iterator[Finding]:
    entry, keys = predicate["countersignatures"][name], predicate["nodes"][name]["host_keys"]
    text = node_text(predicate, name, shared)
    listless = {part: own for part, own in shared.items() if part != "nodes"}
    if entry["text"] != text and entry["text"] == node_text(predicate, name, listless):
        what = "did not sign which nodes there are: an older rdmaprov made this certificate"
        yield Finding("certificate.countersignature", what, node=name, proven=False)
        text = entry["text"]
    if not entry["signature"]:
        if text != entry["text"]:
            yield from _differences(entry["text"], text, name)
        why = entry["missing"] or "no reason is given"
        yield _unsigned(name, f"did not countersign: {why}", proven=False)
        return
    signed = entry["text"].encode("utf-8", "replace"), entry["signature"].encode()
    if entry["key"] not in keys:
        yield _unsigned(name, "is of a key that was not the node's host key")
        if text != entry["text"]:
            yield from _differences(entry["text"], text, name)
    elif not ssh_signature.is_by(*signed, NODE, [entry["key"]]):
        yield _unsigned(name, "is not of the node's host key and this text")
    elif text != entry["text"]:
        yield from _differences(entry["text"], text, name)


def _differences(signed: str, text: str, name: str) -> Iterator[Finding]:
    """Yield where the certificate is not what a node signed."""
    try:
        was = parse_answer(signed, lambda _value: RIGHT)
    except OddAnswer:
        was = None
    if not isinstance(was, dict):
        yield _altered(f"predicate/countersignatures/{name}/text", "is no JSON object")
        return
    now = json.loads(text)
    own = f"predicate/nodes/{name}"
    places = {"own": own, "sections": "predicate", "certificate": "predicate/id"}
    found = list(_paths(was, now))
    for path, one, other in found[:_MOST_NAMED]:
        head, *rest = path
        where = "/".join([places.get(head, f"predicate/{head}"), *rest])
        said = "is not what the nodes countersigned"
        if head == "own":
            said = f"is {_short(other)}; {name} countersigned {_short(one)}"
        yield _altered(where, said)
    if len(found) > _MOST_NAMED:
        yield _altered(own, f"and {len(found) - _MOST_NAMED} more places")


def _paths(was: object, now: object) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """Yield the places in which two JSON values differ, with both values."""
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        pairs = [(key, was[key], now[key]) for key in was]
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        pairs = [(str(index), *both) for index, both in enumerate(zip(was, now, strict=True))]
    else:
        if canonical(was) != canonical(now):
            yield ("text",), was, now
        return
    for key, one, other in pairs:
        if isinstance(one, (dict, list)) and isinstance(other, (dict, list)):
            for path, *values in _paths(one, other):
                yield (key, *path), values[0], values[1]
        elif type(one) is not type(other) or one != other:
            yield (key,), one, other


def _short(value: object) -> str:
    text = canonical(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unsigned(node: str, what: str, *, proven: bool = True) -> Finding:
    return Finding("certificate.countersignature", what, node=node, proven=proven)


def _altered(where: str, what: str) -> Finding:
    return Finding("certificate.altered", what, part=where)
