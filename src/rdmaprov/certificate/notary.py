"""What nodes are asked about certificates: to countersign, to keep one, to say what they are."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.ask.nodes import Nodes, ask_nodes, file_command
from rdmaprov.boundary import Check, Document
from rdmaprov.certificate import shape, ssh_signature
from rdmaprov.certificate.statement import NODE, canonical
from rdmaprov.node import gpus
from rdmaprov.node.standing import HEALTH, PROGRAM
from rdmaprov.probe.connection import Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.script import node_script

_PROGRAMS = Path(__file__).parent / "node"
_LIMIT_S = 60 + gpus.LIMIT_S


def countersign(
    connection: Nodes, texts: Mapping[str, str], keys: Mapping[str, list[str]]
) -> dict[str, dict[str, str]]:
    """Return what each node signed, and with which host key, or why it did not.

    Args:
        keys: the host keys that the controller knows of each; none is no reason to ask.
    """
    asked = {
        name: {"verb": "countersign", "text": text, "keys": keys[name], "namespace": NODE}
        for name, text in texts.items()
        if keys.get(name)
    }
    answers = _ask(connection, asked, lambda _name: shape.SIGNED)
    entries = {}
    for name, text in texts.items():
        entry = {"text": text, "key": "", "signature": "", "missing": ""}
        said = answers.get(name)
        if said is None:
            entry["missing"] = "no host key of it is known"
        elif isinstance(said, str):
            entry["missing"] = said
        elif said["key"] not in keys[name] or not ssh_signature.is_by(
            text.encode(), said["signature"].encode(), NODE, [said["key"]]
        ):
            entry["missing"] = "its signature is not of its host key in known_hosts"
        else:
            entry.update(key=said["key"], signature=said["signature"])
        entries[name] = entry
    return entries


def leave(
    connection: Nodes, entries: Mapping[str, Mapping[str, str]], drains: int
) -> dict[str, str]:
    """Write on each node its part of a certificate; return why that failed, by node."""
    programs = {
        path: node_script(_PROGRAMS / name).decode()
        for path, name in ((PROGRAM, "check.py"), (HEALTH, "health.py"))
    }
    asked = {
        name: {
            "verb": "leave",
            "programs": programs,
            "left": canonical(
                {"signed": each["text"], "signature": each["signature"], "drains": drains}
            ),
        }
        for name, each in entries.items()
    }
    return _failures(_ask(connection, asked, lambda _name: shape.DONE))


def withdraw(connection: Nodes, reasons: Mapping[str, str]) -> dict[str, str]:
    """Have nodes say that an acceptance refused them, if one left a certificate there."""
    asked = {name: {"verb": "withdraw", "why": why[:200]} for name, why in reasons.items()}
    return _failures(_ask(connection, asked, lambda _name: shape.DONE))


def check(connection: Nodes, names: tuple[str, ...]) -> dict[str, Document | str]:
    """Return what the program that was left says on each node, or why there is no answer."""
    return _ask(connection, {name: {"verb": "check"} for name in names}, lambda _n: shape.CHECKED)


def read(
    connection: Nodes, described: Mapping[str, Sequence[Mapping[str, str]]]
) -> dict[str, Document | str]:
    """Return what each node is now, or why there is no answer; `described` has the site's rails."""
    asked = {name: {"verb": "read", "described": own} for name, own in described.items()}
    return _ask(connection, asked, lambda name: shape.identity(len(described[name])))


def _ask(
    connection: Nodes, asked: Mapping[str, Mapping[str, Any]], check: Callable[[str], Check]
) -> dict[str, Document | str]:
    """Return the answer of each node, or why there is none."""
    commands: dict[str, Command] = {
        name: file_command(_PROGRAMS / "notary.py", document, _LIMIT_S)
        for name, document in asked.items()
    }
    found: dict[str, Document | str] = {}
    for name, answer in ask_nodes(connection, commands, check).items():
        if isinstance(answer, NodeError):
            found[name] = answer.message.removeprefix(f"{name}: ")
        else:
            found[name] = answer["error"] or answer
    return found


def _failures(answers: Mapping[str, Document | str]) -> dict[str, str]:
    return {name: said for name, said in answers.items() if isinstance(said, str)}
