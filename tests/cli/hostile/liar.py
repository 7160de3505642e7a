"""The Python of a node that lies. Started with a file that says how, and Python's own arguments.

It answers as the agent where it is started as that, else as a module of Ansible's:
it takes the good answer of that file, makes a wrong one of it, and ends as it is told.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.cli.hostile import accepting, framing, wrong

STEP_S = 0.2  # between the drops of a slow answer
HANGS_S = 90  # longer than any limit of a test


class Request(NamedTuple):
    """What the controller asks an agent for."""

    number: int
    command: str
    given: bytes


def make(lie: dict[str, Any], good: Any) -> bytes:
    wrong.mark_told(lie)
    kind, name = lie["kind"], lie["name"]
    rng, places = Random(lie.get("seed")), [tuple(place) for place in lie.get("places", [])]
    if kind == "value":
        return wrong.wrong_value(name, good, places, rng)
    if kind == "shape":
        return wrong.wrong_shape(name, good, places, rng)
    if kind == "text":
        return wrong.wrong_text(name, wrong.dump(good), rng)
    if kind == "saying":
        return saying(wrong.SAYINGS[name], good, places)
    return wrong.dump(good)


def saying(text: str, good: Any, places: list[wrong.Place]) -> bytes:
    for place in places:
        parent = good
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = {"error": text} if place[-1] == "torch" else text
    return wrong.dump(good)


def end(how: str) -> None:
    sys.stdout.flush()
    word, _, number = how.partition(" ")
    if word == "exit":
        os._exit(int(number))
    elif word == "signal":
        os.kill(os.getpid(), int(number))
    elif word == "errors":
        os.write(2, b"x" * 79 + b"\n")
        for _ in range(int(number) * 16):
            os.write(2, (b"\x1b[2J" + b"x" * 74 + b"\n") * 800)
        os._exit(1)
    elif word == "drip":
        for _ in range(int(number)):
            os.write(1, b"{")
            time.sleep(STEP_S)
        time.sleep(HANGS_S)
    elif word == "silence":
        time.sleep(HANGS_S)


def answer_once(lie: dict[str, Any]) -> None:
    """Answer as what Ansible starts: a module from standard input."""
    sys.stdin.buffer.read()
    wrong.mark_told(lie)
    out = b"" if lie["kind"] == "end" else make(lie, lie["good"])
    if lie["kind"] == "saying" and not lie.get("places"):
        os.write(2, wrong.SAYINGS[lie["name"]].encode("utf-8", "surrogatepass"))
        os._exit(3)
    while out:
        out = out[os.write(1, out) :]
    end(lie["name"] if lie["kind"] == "end" else "exit 0")


def requests() -> Iterator[Request]:
    """Yield what the controller asks, as the agent reads it."""
    while head := sys.stdin.buffer.readline():
        number, _limit, length, given = head.split()
        command = sys.stdin.buffer.read(int(length)).decode("utf-8", "surrogateescape")
        yield Request(int(number), command, sys.stdin.buffer.read(int(given)))


def serve(lie: dict[str, Any], words: list[str]) -> None:
    size = re.search(r"read\((\d+)\)", words[words.index("-c") + 1])
    assert size
    sys.stdin.buffer.read(int(size[1]))
    frames = framing.Frames(lie, words[-1], end)
    frames.begin()
    node = accepting.Node(lie) if lie["verb"] == "accept" else None
    for request in requests():
        if node is not None:
            answer = node.answer(request.command, request.given, make)
        else:
            answer = known(lie, request)
        frames.send(request.number, *answer)


def known(lie: dict[str, Any], request: Request) -> tuple[int, bytes, bytes]:
    if lie["kind"] == "record":
        done = subprocess.run(
            ["/bin/sh", "-c", request.command],
            input=request.given,
            capture_output=True,
            check=False,
        )
        found = [done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")]
        with Path(lie["file"]).open("a") as opened:
            opened.write(json.dumps([request.command, found]) + "\n")
        return done.returncode, done.stdout, done.stderr
    if lie["verb"] in ("apply --drifted", "discover"):
        wrong.mark_told(lie)
        said = lie["kind"] == "saying" and not lie.get("places")
        return (
            (3, b"", wrong.SAYINGS[lie["name"]].encode("utf-8", "surrogatepass"))
            if said
            else (0, make(lie, lie["good"]), b"")
        )
    rc, out, err = lie["good"].get(request.command, [0, "", ""])
    return rc, framing.garbled(lie, out.encode("latin-1")), err.encode("latin-1")


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.alarm(2 * HANGS_S)  # who gives it up may leave it, with output that nobody reads
    lie = json.loads(Path(sys.argv[1]).read_text())
    words = sys.argv[2:]
    if "-c" in words:
        serve(lie, words)
    else:
        answer_once(lie)


main()
