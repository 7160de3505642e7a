"""The nodes of an acceptance: what runs there, asked side by side over one connection each."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rdmaprov.boundary import Check, Document, OddAnswer, parse_answer
from rdmaprov.inventory import Fleet
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NoAnswer, NodeError
from rdmaprov.probe.fleet import open_probe
from rdmaprov.probe.script import node_script
from rdmaprov.probe.session import Limits, most_connections
from rdmaprov.problem import printable

_PROGRAMS = Path(__file__).parents[1] / "node"


class Nodes(Protocol):
    """Runs one command on each of some nodes, at the same time; rdmaprov.probe.Probe does."""

    def run_all(self, commands: Mapping[str, Command]) -> dict[str, Answer | NodeError]:
        """Return what each node's command gave, or why there is nothing."""


@contextmanager
def connect(fleet: Fleet, become_password: str = "") -> Iterator[Nodes]:
    """Provide a fleet's nodes; their connections end with the context. See `open_probe`."""
    # A job asks all nodes again and again: connections stay, as far as open files allow.
    limits = Limits(open=most_connections(len(fleet.nodes)))
    probe = open_probe(fleet, limits, True, become_password, acts=True)
    try:
        yield probe
    finally:
        probe.close()


def program_command(name: str, document: Document, limit_s: float, mark: str = "") -> Command:
    """Return the command that runs one of node/'s programs on a document.

    Args:
        name: the program's, such as `reader`.
        limit_s: seconds it may take.
        mark: its argument, by which its process can be found.
    """
    return file_command(_PROGRAMS / f"{name}.py", document, limit_s, mark)


def file_command(
    path: Path, document: Mapping[str, Any], limit_s: float, mark: str = ""
) -> Command:
    """Return the command that runs a program for nodes on a document; see `program_command`."""
    source = node_script(path)
    # A program can leave itself behind: what it is stays in `source`.
    loader = f"import sys;source=sys.stdin.buffer.read({len(source)});exec(source)"
    words = ["python3", "-I", "-c", loader, *([mark] if mark else [])]
    return Command(shlex.join(words), limit_s, json.dumps(document).encode(), source)


def ask_nodes(
    nodes: Nodes, commands: Mapping[str, Command], check: Callable[[str], Check]
) -> dict[str, Document | NodeError]:
    """Return the JSON that each node's program printed, or why there is none."""
    answers = nodes.run_all(commands)
    return {name: _parse_document(name, answer, check(name)) for name, answer in answers.items()}


def _parse_document(name: str, answer: Answer | NodeError, check: Check) -> Document | NodeError:
    if isinstance(answer, NodeError):
        return answer
    if answer.rc == 0:
        try:
            document: Document = parse_answer(answer.out, check)
        except OddAnswer as error:
            what = f"{name}: {error}"
            return NoAnswer(what, f"On {name}, check what python3 is, and its sshd and shell")
        return document
    lines = (answer.err or answer.out).strip().splitlines()
    last = printable(lines[-1])[:300] if lines else "no output"
    what = f"{name}: python3 exited with status {answer.rc}: {last}"
    return NoAnswer(what, f"On {name}, check: python3 --version (3.6 or later)")
