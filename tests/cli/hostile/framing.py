"""Wrong frames of an agent: what it says of its answers, not in them. The lying node imports this.

An answer is a line "ID STATUS LENGTH LENGTH" and as many bytes; src/rdmaprov/probe/agent.py.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tests.cli.hostile import wrong

# Before the first answer: what comes in place of the agent's mark, and the end after it.
BEGINNINGS: dict[str, tuple[str, str]] = {
    "no mark": ("Welcome\n", "exit 0"),
    "another mark": ("\nrdmaprov-0000000000000000\n", "exit 0"),
    "half of the mark": ("\n{half}\n", "exit 1"),
    "mark and the end": ("\n{mark}\n", "exit 0"),
    "closes at once": ("", "exit 0"),
    "exit status 77": ("", "exit 77"),
    "killed": ("", "signal 9"),
    "segmentation fault": ("", "signal 11"),
    "silence": ("", "silence"),
    "slow drip": ("", "drip 5"),
    "banner without a line's end": ("x" * 300_000, "exit 0"),
    "banner of a million lines": ("Welcome\n" * 1_000_000, "exit 0"),
    "banner of escapes": (wrong.CONTROL + "\n", "exit 0"),
    "100 MB of errors": ("", "errors 100"),
}
# In place of the head of an answer; {} is its number.
HEADS: dict[str, bytes] = {
    "status that is no number": b"{} abc 0 0\n",
    "number that nobody asked": b"7777 0 0 0\n",
    "answered twice": b"{} 0 0 0\n{} 0 0 0\n",
    "5,000 digits of length": b"{} 0 " + b"9" * 5000 + b" 0\n",
    "5,000 digits of number": b"9" * 5000 + b" 0 0 0\n",
    "negative length": b"{} 0 -1 0\n",
    "negative number": b"-1 0 0 0\n",
    "status of 5 digits": b"{} 99999 0 0\n",
    "more than the agent sends": b"{} 0 99999999 0\n",
    "a word too many": b"{} 0 0 0 0\n",
    "a word too few": b"{} 0 0\n",
    "no line at all": b"x" * 3_000_000,
    "no UTF-8": b"\xff\xfe 0 0 0\n",
    "other digits": "\u0660 0 0 0\n".encode(),
    "line ends of Windows": b"{} 0 0 0\r\n",
    "two spaces": b"{}  0 0 0\n",
    "fraction": b"{} 0 1.5 0\n",
    "hexadecimal": b"0x0 0 0 0\n",
    "escapes": wrong.CONTROL.encode() + b"\n",
    "empty line": b"\n",
    "a page": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zero bytes": b"\0" * 4096,
    "mark again": b"rdmaprov-0000000000000000\n",
}
# In place of the answer, from its bytes; then what the node does.
BODIES: dict[str, tuple[Callable[[bytes, Random], bytes], str]] = {
    "cut, then the end": (lambda good, rng: good[: rng.randrange(1, len(good))], "exit 0"),
    "cut, then killed": (lambda good, rng: good[: rng.randrange(1, len(good))], "signal 9"),
    "cut, then silence": (lambda good, rng: good[: rng.randrange(1, len(good))], "silence"),
    "silence": (lambda _good, _rng: b"", "silence"),
    "the end": (lambda _good, _rng: b"", "exit 0"),
    "exit status 255": (lambda _good, _rng: b"", "exit 255"),
    "slow drip": (lambda _good, _rng: b"", "drip 5"),
    "garbage before": (lambda good, rng: rng.randbytes(60).hex().encode() + good, ""),
    "garbage after": (lambda good, rng: good + rng.randbytes(60).hex().encode() + b"\n", "exit 0"),
    "reversed": (lambda good, _rng: good[::-1] + b"\n", ""),
    "without end": (lambda _good, _rng: b"", "endless"),
    "no result, and escapes": (lambda _good, _rng: b"", "refuses"),
    "shorter than it says": (lambda good, _rng: good.replace(b" 0\n", b" 9\n", 1), "silence"),
}


def _say(text: str, _good: bytes, _rng: Random) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# The output of every command of a check, in place of the recorded one.
OUTPUTS: dict[str, Callable[[bytes, Random], bytes]] = {
    **wrong.TEXTS,
    **{f"says {name}": partial(_say, text) for name, text in wrong.SAYINGS.items()},
    "lines shuffled": lambda good, rng: _shuffled(good, rng),
    "lines doubled": lambda good, _rng: b"".join(2 * line for line in good.splitlines(True)),
    "digits for nines": lambda good, _rng: good.translate(
        bytes.maketrans(b"01234567", b"99999999")
    ),
    "5,000 digits": lambda _good, _rng: b"9" * 5000 + b"\n",
    "a word missing": lambda good, _rng: b"\n".join(
        x.partition(b" ")[2] for x in good.split(b"\n")
    ),
}


def _shuffled(good: bytes, rng: Random) -> bytes:
    lines = good.splitlines(True)
    rng.shuffle(lines)
    return b"".join(lines[: len(lines) // 2])


def garbled(lie: dict[str, Any], good: bytes) -> bytes:
    if lie["kind"] != "output":
        return good
    wrong.mark_told(lie)
    return OUTPUTS[lie["name"]](good.strip() or b"x", Random(lie["seed"]))


class Frames:
    """What an agent writes, with what is wrong about it."""

    def __init__(self, lie: dict[str, Any], mark: str, end: Callable[[str], None]) -> None:
        self._lie, self._mark, self._end = lie, mark, end
        self._after = int(lie.get("after", 0))

    def begin(self) -> None:
        if self._lie["kind"] == "beginning":
            wrong.mark_told(self._lie)
            text, how = BEGINNINGS[self._lie["name"]]
            half = self._mark[: len(self._mark) // 2]
            _write(text.replace("{mark}", self._mark).replace("{half}", half).encode())
            self._end(how)
        _write(b"\nLast login: today\n" + self._mark.encode() + b"\n")

    def send(self, number: int, rc: int, out: bytes, err: bytes) -> None:
        good = b"%d %d %d %d\n" % (number, rc, len(out), len(err)) + out + err
        self._after -= 1
        if self._lie["kind"] in ("head", "body") and self._after < 0:
            wrong.mark_told(self._lie)
        if self._lie["kind"] == "head" and self._after < 0:
            _write(HEADS[self._lie["name"]].replace(b"{}", b"%d" % number))
        elif self._lie["kind"] == "body" and self._after < 0:
            self._wrong_body(number, good)
        else:
            _write(good)

    def _wrong_body(self, number: int, good: bytes) -> None:
        make, how = BODIES[self._lie["name"]]
        _write(make(good, Random(self._lie["seed"])))
        if how == "endless":
            while True:
                _write(b"%d 0 4 0\nabc\n" % number * 1000)
        if how == "refuses":
            text = wrong.CONTROL.encode()
            _write(b"%d - 0 %d\n" % (number, len(text)) + text)
        elif how:
            self._end(how)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
    time.sleep(0)
