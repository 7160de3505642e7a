"""How an acceptance starts ranks: settings that belong together, and options that are its own."""

import re
from collections.abc import Iterator, Sequence

from rdmaprov.bandwidth.fabric import FabricError
from rdmaprov.bandwidth.floor import derive
from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.contract.rule import FleetRule, Rule, Violation
from rdmaprov.inventory.model import Node

_FLOOR, _REASON = "fabric_floor_gb_s", "fabric_floor_reason"
_FLOOR_DOCS = "docs/floor.md"
_SCHEDULER_DOCS = "docs/variables.md, scheduler"
_KIND = "scheduler_kind"
# Program → the places that its words must have.
_SCHEDULER_PLACES = {
    "scheduler_state_command": ("{node}",),
    "scheduler_drain_command": ("{node}", "{reason}"),
    "scheduler_resume_command": ("{node}",),
}
_DOCS = "docs/ranks.md"
_LAUNCHER = "torch_runtime_launcher"
_COMMAND = "torch_runtime_launch_command"
_PLACES = ("{node}", "{address}")
# What is of no use without its launcher.
_OF = {
    _COMMAND: ("command",),
    "torch_runtime_launch_image": ("slurm",),
    "torch_runtime_launch_python": ("slurm", "command"),
    "torch_runtime_slurm_options": ("slurm",),
    "torch_runtime_slurm_step_options": ("slurm",),
}
# What accept sets itself: which nodes, which job, how a step talks. Also in short.
_OWN = (
    "--nodelist", "--nodes", "--ntasks", "--jobid", "--overlap", "--unbuffered", "--no-shell",
    "--container-image", "--pty", "--label", "--multi-prog", "-w", "-N", "-n", "-u", "-l",
)  # fmt: skip
_OPTION = re.compile(r"(--[a-z][a-z0-9-]*(=.*)?|-[A-Za-z].*)", re.DOTALL)


def _site_floor(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    try:
        wanted = derive(site_fabric(nodes))
    except FabricError:  # other rules say which variable is missing or wrong
        return
    for node in nodes:
        demanded = node.get(_FLOOR)
        if not isinstance(demanded, (int, float)) or demanded <= 0:
            continue
        if demanded > wanted.ceiling_gb_s:
            message = f"{demanded:g} GB/s exceeds the ceiling, "
            message += f"{format_gb_s(wanted.ceiling_gb_s)} for these rails"
            yield node, Violation(_FLOOR, message, "write it in GB/s: divide Gb/s by 8")
        elif demanded < wanted.floor_gb_s and not node.get(_REASON):
            message = f"{demanded:g} GB/s is below the derived floor, "
            message += format_gb_s(wanted.floor_gb_s)
            yield (
                node,
                Violation(_FLOOR, message, f"write the reason into {_REASON}, or remove the line"),
            )


def _floor_reason(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    for node in nodes:
        if node.get(_REASON) and not node.get(_FLOOR):
            message = f"there is a reason, but {_FLOOR} is not set"
            yield node, Violation(_REASON, message, f"write {_FLOOR}, or remove the line")


FLOOR_RULES = (
    FleetRule("acceptance.floor", "A site's own floor is at most the ceiling, and has a reason "
              "if it is below the derived floor.", _FLOOR_DOCS, _site_floor),
    FleetRule("acceptance.reason", "A site that gives a reason also sets a floor.", _FLOOR_DOCS,
              _floor_reason),
)  # fmt: skip


def _programs(node: Node) -> Iterator[Violation]:
    for name, places in _SCHEDULER_PLACES.items():
        words = [str(word) for word in node.get(name) or ()]
        if node.get(_KIND) != "command":
            if words:
                message = f"it has no effect with {_KIND}: {node.get(_KIND)}"
                remedy = f"write {_KIND}: command, or remove the line"
                yield Violation(name, message, remedy, (), (_KIND,))
        elif not words:
            yield Violation(_KIND, f"the kind command needs {name}", f"set {name}")
        else:
            for place in places:
                if not any(place in word for word in words):
                    message = f"no word has {place}"
                    yield Violation(name, message, f"write {place} where that goes")


def _one(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    for name in (_KIND, *_SCHEDULER_PLACES):
        for node in nodes:
            if node.get(name) != nodes[0].get(name):
                message = f"it differs from that of {nodes[0].name}: a site has one scheduler"
                yield node, Violation(name, message, "write it once, in group_vars/all.yml")


SCHEDULER_RULES = (
    Rule("scheduler.programs", "The site's own programs belong to scheduler_kind: command.",
         _SCHEDULER_DOCS, _programs),
    FleetRule("scheduler.one", "All nodes have one scheduler.", _SCHEDULER_DOCS, _one),
)  # fmt: skip


def _together(node: Node) -> Iterator[Violation]:
    launcher = node.get(_LAUNCHER)
    if launcher == "command" and not node.get(_COMMAND):
        message = f"the launcher command needs {_COMMAND}"
        yield Violation(_LAUNCHER, message, f"set {_COMMAND}, or write ssh or slurm")
    for name, launchers in _OF.items():
        if node.get(name) and launcher not in launchers:
            message = f"it has no effect with {_LAUNCHER}: {launcher}"
            remedy = f"write {_LAUNCHER}: {launchers[0]}, or remove the line"
            yield Violation(name, message, remedy, (), (_LAUNCHER,))


def _command(node: Node) -> Iterator[Violation]:
    words = [str(word) for word in node.get(_COMMAND) or ()]
    if words and not any(place in word for word in words for place in _PLACES):
        message = "no word has {node} or {address}, so it is the same command for every node"
        yield Violation(_COMMAND, message, "write {node} where the node's name goes")


def _options(node: Node) -> Iterator[Violation]:
    for name in ("torch_runtime_slurm_options", "torch_runtime_slurm_step_options"):
        for word in map(str, node.get(name) or ()):
            if not _OPTION.fullmatch(word):
                message = f"'{word}' is no option"
                yield Violation(name, message, "write each as one entry, --name=value")
            elif _is_own(word):
                message = f"rdmaprov accept sets {word.partition('=')[0]} itself"
                yield Violation(name, message, "remove the entry; select nodes with --limit")


def _is_own(word: str) -> bool:
    """Return whether an option is accept's own: its name, a short one with its value behind it."""
    long = word.partition("=")[0]
    return long in _OWN or (not word.startswith("--") and word[:2] in _OWN)


def _one_launcher(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first = nodes[0] if nodes else None
    for name in (_LAUNCHER, "torch_runtime_slurm_options"):
        for node in nodes:
            if first is not None and node.get(name) != first.get(name):
                message = f"it differs from that of {first.name}: one run has one for all nodes"
                yield node, Violation(name, message, "write it once, in group_vars/all.yml")


RULES = (
    Rule("acceptance.launcher", "The settings of a launcher belong to the one that is chosen.",
         _DOCS, _together),
    Rule("acceptance.command", "The command of a launcher names the node.", _DOCS, _command),
    Rule("acceptance.slurm", "Options of Slurm are options, and none that accept sets itself.",
         _DOCS, _options),
    FleetRule("acceptance.one_launcher", "All nodes have one launcher.", _DOCS, _one_launcher),
)  # fmt: skip
