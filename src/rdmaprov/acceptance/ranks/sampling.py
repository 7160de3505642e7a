"""Have nodes sample the counters of their rails while a job runs, and fetch what they wrote."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.samples.packed import MOST_PACKED
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.script import node_script

EVERY_S = 0.1
PROGRAM = "sampler.py"
_SOURCE = Path(__file__).parents[1] / "node" / PROGRAM
_FETCH_S = 60
# A tick of a long run takes 0.8 s; one that reads a device that does not answer takes longer.
_WAIT_TENTHS = 30
# Files of 64 nodes, of half a MiB each, are in memory at once.
_AT_ONCE = 64


def sample_request(rails: Sequence[dict[str, str]], limit_s: float) -> dict[str, Any]:
    """Return what a start asks of the sampler.

    Args:
        rails: how the site names each, for programs on the node.
        limit_s: seconds after which it ends.
    """
    return {"rails": list(rails), "every_s": EVERY_S, "limit_s": limit_s}


def program_source() -> bytes:
    """Return the sampler, which needs nothing but Python on the node."""
    return node_script(_SOURCE)


def fetch_commands(directories: Mapping[str, str]) -> Iterator[dict[str, Command]]:
    """Yield commands that end the samplers of some nodes and print their files, in base64.

    Args:
        directories: where each node's ranks run.
    """
    names = list(directories)
    for first in range(0, len(names), _AT_ONCE):
        yield {name: _fetch_command(directories[name]) for name in names[first : first + _AT_ONCE]}


def _fetch_command(directory: str) -> Command:
    # It ends at its next tick. One that never began leaves no file, and is not waited for long.
    text = (
        f"cd {shlex.quote(directory)} && [ -f {PROGRAM} ] && touch samples.stop && "
        f"n=0; while [ ! -f samples.gz ] && [ $n -lt {_WAIT_TENTHS} ]; do sleep 0.1; n=$((n+1)); "
        f"done; head -c {MOST_PACKED + 1} samples.gz | base64 -w0"
    )
    return Command(text, _FETCH_S)


def samples_from(answer: Answer | NodeError) -> bytes:
    """Return the file that a node printed; empty if there is none."""
    if not isinstance(answer, Answer) or answer.rc != 0:
        return b""
    try:
        return base64.b64decode(answer.out, validate=True)
    except ValueError:
        return b""
