"""Commands that run programs of rdmaprov.node with the node's Python."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

import rdmaprov.node
from rdmaprov.probe.script import node_script


@cache
def node_command(program: str, *words: str) -> str:
    """Return the command that runs a program, such as `relay.py`, with arguments."""
    source = node_script(Path(rdmaprov.node.__file__).with_name(program)).decode()
    # RHEL has a Python of its own, whether or not there is one in PATH.
    python = '"$(command -v python3 || echo /usr/libexec/platform-python)"'
    return " ".join([python, "-I", "-S", "-c", *map(shlex.quote, (source, *words))])
