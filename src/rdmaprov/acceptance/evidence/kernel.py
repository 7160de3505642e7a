"""What the kernels of nodes logged during an acceptance."""

from collections.abc import Mapping

from rdmaprov.acceptance.ask.nodes import Nodes, ask_nodes, program_command
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.kernel_log.during import ANSWER, ASKED, Places, judge_lines, rail_places
from rdmaprov.probe.errors import NodeError
from rdmaprov.problem import printable
from rdmaprov.words import some

_LIMIT_S = 20
_MOST_NOTES = 3  # of a node, on what needs no hand
_MOST_NODES = 8  # with notes


def judge_kernels(
    connection: Nodes, facts: Mapping[str, Document]
) -> tuple[list[Finding], list[str]]:
    """Return what needs a hand of what was logged since the preflight, and notes on the rest."""
    commands = {
        name: program_command("reader", {"verb": "log", "since": own["time"], **ASKED}, _LIMIT_S)
        for name, own in facts.items()
    }
    found: list[Finding] = []
    notes: list[str] = []
    unread: dict[str, str] = {}
    answers = ask_nodes(connection, commands, lambda _name: ANSWER)
    for name, said in answers.items():
        if isinstance(said, NodeError):
            unread[name] = "no answer"
            continue
        if said["lacks"]:
            unread[name] = printable(said["lacks"])[:100]
        own, rest = judge_lines(name, said["log"], _places(facts[name]))
        found += own
        if rest:
            notes.append(f"{name}: its kernel logged {some(rest, _MOST_NOTES, '; ')}")
    if more := notes[_MOST_NODES:]:
        notes[_MOST_NODES:] = [f"the kernels of {len(more):,} more nodes logged such events"]
    if unread:
        why = next(iter(unread.values()))
        notes.append(f"the kernel's log is not verified on {some(unread, 4)}: {why}")
    return found, notes


def _places(facts: Document) -> Places:
    own = facts.get("identity", {"gpus": [], "rails": []})
    gpus = {each["pci"]: (f"GPU {number}", None) for number, each in enumerate(own["gpus"])}
    return {**rail_places((n["pci"], n["netdev"], n["rdma"]) for n in own["rails"]), **gpus}
