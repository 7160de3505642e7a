"""Wrong answers, made from a good one and a seed. The lying node imports this: stdlib alone.

Each maker gets what a node would answer and a generator of random numbers, which chooses the
place. Whatever it chooses, nobody may take the result for an answer.
"""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Place = tuple[str | int, ...]
_RAW = "@raw@"  # stands for what json.dumps cannot write
CONTROL = "\x1b[2J\x1b]0;x\x07 \x9b31m \u202egnp.exe\u2066 \x08\x7f \u2028"

# What takes the place of a value that has another type or a strict pattern.
VALUES: dict[str, Any] = {
    "null": None,
    "list for anything": [["x"]],
    "mapping for anything": {"x": {}},
    "huge number": 10**40,
    "negative number": -(10**30),
    "400 digits": 10**400,
    "5,000 digits": f"{_RAW}{'9' * 5000}",
    "NaN": float("nan"),
    "infinity": float("inf"),
    "too large for a float": f"{_RAW}1e999",
    "nested 10,000 deep": f"{_RAW}{'[' * 10_000}{']' * 10_000}",
    "lookup": "{{ lookup('pipe', 'touch canary') }}",
    "statement": "{% for x in range(10**9) %}{% endfor %}",
    "comment": "{# x #}",
    "way up": "../../../../tmp/canary",
    "role that nobody asked for": "x/../../evil",
    "lone surrogate": "\ud800",
    "zero byte": "a\x00b",
    "escapes": CONTROL,
    "5,000,000 characters": "x" * 5_000_000,
    "page": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "shell": "$(touch canary); `touch canary`",
    "YAML tag": "!!python/object/apply:os.system ['touch canary']",
}


def mark_told(lie: dict[str, Any]) -> None:
    """Note that a lie was told: one that nobody asks for would seem to do no harm."""
    Path(lie["told"]).touch()


def wrong_value(name: str, good: Any, places: list[Place], rng: Random) -> bytes:
    document, parent, key = _at(good, places, rng)
    parent[key] = VALUES[name]
    return dump(document)


def _removed(parent: Any, key: Any, _rng: Random) -> None:
    del parent[key]


def _renamed(parent: Any, key: Any, _rng: Random) -> None:
    parent[f"{key}_"] = parent.pop(key)


def _added(parent: Any, key: Any, rng: Random) -> None:
    _removed(parent, key, rng)
    parent["__proto__"] = {"x": 1}


def _wrapped(parent: Any, key: Any, _rng: Random) -> None:
    parent[key] = {"a": [parent[key]]}


def _other_type(parent: Any, key: Any, _rng: Random) -> None:
    value = parent[key]
    parent[key] = 7.5 if isinstance(value, str) else json.dumps(value) + " "


SHAPES: dict[str, Callable[[Any, Any, Random], None]] = {
    "key removed": _removed,
    "key renamed": _renamed,
    "key added, another lost": _added,
    "value wrapped": _wrapped,
    "another type": _other_type,
}


def wrong_shape(name: str, good: Any, places: list[Place], rng: Random) -> bytes:
    """Return a document in which one place has another shape; places are keys of mappings."""
    document, parent, key = _at(good, [p for p in places if isinstance(p[-1], str)], rng)
    SHAPES[name](parent, key, rng)
    return dump(document)


TEXTS: dict[str, Callable[[bytes, Random], bytes]] = {
    "nothing": lambda _good, _rng: b"",
    "cut": lambda good, rng: good[: rng.randrange(1, len(good))],
    "cut at the end": lambda good, _rng: good[:-1],
    "cut at the beginning": lambda good, _rng: good[1:],
    "twice on a line": lambda good, _rng: good + good,
    "garbage before": lambda good, rng: b"\xfe\x00" + rng.randbytes(40).hex().encode() + good,
    "garbage after": lambda good, rng: good + b" " + rng.randbytes(40).hex().encode(),
    "backwards": lambda good, _rng: good[::-1],
    "no UTF-8": lambda good, _rng: good[:1] + b"\xff\xfe" + good[1:],
    "UTF-16": lambda good, _rng: b"\xff\xfe" + good.decode("latin-1").encode("utf-16-le"),
    "zero bytes between": lambda good, _rng: b"\0".join(good[i : i + 1] for i in range(len(good))),
    "a list of it": lambda good, _rng: b"[" + good + b"]",
    "a text of it": lambda good, _rng: json.dumps(good.decode("latin-1")).encode(),
    "null": lambda _good, _rng: b"null",
    "an empty mapping": lambda _good, _rng: b"{}",
    "a page": lambda _good, _rng: b"<!doctype html><script>alert(1)</script>",
    "escapes": lambda _good, _rng: CONTROL.encode() * 40,
    "brackets": lambda _good, _rng: b"[" * 200_000,
    "noise": lambda _good, rng: rng.randbytes(4096),
    "a megabyte": lambda _good, _rng: b"x" * (1 << 20),
}


def wrong_text(name: str, good: bytes, rng: Random) -> bytes:
    """Return bytes that are no document, or another one."""
    return TEXTS[name](good.strip(), rng)


# What a person reads, where a node may say anything: it must arrive without effect.
SAYINGS: dict[str, str] = {
    "escapes": CONTROL,
    "lookup": VALUES["lookup"],
    "page": VALUES["page"],
    "lone surrogate": "\udcff\ud800",
    "zero byte": VALUES["zero byte"],
    "many lines": "x\r\n" * 1000,
    "shell": VALUES["shell"],
    "format": "%s%n{0.__class__}{x!r}",
    "markup": "[bold red]x[/] [link=file:///etc/passwd]x[/link]",
    "other writing": "\u0455y\u0455tem\u0301\u0301 \U000e0041 \ufeff \u540d",
}


def _at(good: Any, places: list[Place], rng: Random) -> tuple[Any, Any, Any]:
    """Return a copy of a document, and one of the places in it: what has it, and its key there."""
    document = copy.deepcopy(good)
    place = rng.choice(places)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    return document, parent, place[-1]


def dump(document: Any) -> bytes:
    return re.sub(rf'"{_RAW}([^"]*)"', r"\1", json.dumps(document)).encode()
