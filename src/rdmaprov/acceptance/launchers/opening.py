"""The nodes of an acceptance, by the launcher that was chosen: ssh, Slurm, a site's own command."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rdmaprov.acceptance.ask import nodes
from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.launchers import choice
from rdmaprov.acceptance.launchers.allocation import (
    CONNECT_S,
    Allocation,
    SlurmNodes,
    allocate,
    gpus_of,
    step_target,
    use_job,
)
from rdmaprov.acceptance.launchers.choice import LaunchChoice
from rdmaprov.inventory import Fleet, Node
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.session import Limits, most_connections
from rdmaprov.probe.target import Target

# What a word of the site's command may have, beside the node's name.
COMMAND, QUOTED = "{command}", "{quoted}"


@contextmanager
def open_nodes(
    fleet: Fleet, chosen: LaunchChoice, limit_s: float | None = None, become_password: str = ""
) -> Iterator[Nodes]:
    """Provide a fleet's nodes by a launcher; connections end with the context.

    Args:
        limit_s: of the whole run, where the user sets one; a Slurm job gets no more.

    Raises:
        UnreachableError: Slurm gives no nodes.
    """
    if chosen.launcher == "ssh":
        with nodes.connect(fleet, become_password) as connection:
            yield connection
    elif chosen.launcher == "command":
        targets = {node.name: _by_command(fleet, node) for node in fleet.nodes}
        with _probe(targets, most_connections(len(targets))) as probe:
            yield probe
    else:
        names = [node.name for node in fleet.nodes]
        with _allocation(fleet, names, chosen, limit_s) as allocation:
            targets = {node.name: _by_step(node, allocation.job) for node in fleet.nodes}
            with _probe(targets, len(targets)) as probe:
                yield SlurmNodes(probe, allocation)


@contextmanager
def _allocation(
    fleet: Fleet, names: list[str], chosen: LaunchChoice, limit_s: float | None
) -> Iterator[Allocation]:
    if chosen.job:
        with use_job(names, chosen.job) as allocation:
            yield allocation
        return
    gpus = gpus_of([node.values for node in fleet.nodes])
    options = _words(fleet.nodes[0], choice.SLURM_OPTIONS)
    with allocate(names, gpus, limit_s, options) as allocation:
        yield allocation


def _by_step(node: Node, job: str) -> Target:
    image, options = str(node.get(choice.IMAGE) or ""), _words(node, choice.STEP_OPTIONS)
    return step_target(job, node.name, image, options)


def _by_command(fleet: Fleet, node: Node) -> Target:
    variables = fleet.variables(node.name)
    address = variables.value("ansible_host") if "ansible_host" in variables else node.name
    return template_target(node.name, str(address), _words(node, choice.COMMAND))


def _words(node: Node, name: str) -> list[str]:
    return [str(word) for word in node.get(name) or ()]


@contextmanager
def _probe(targets: Mapping[str, Target], most: int) -> Iterator[Probe]:
    """Provide connections that stay; all open at once, as an image's import takes minutes."""
    probe = Probe(targets, Limits(opening=most, open=most), True)
    try:
        yield probe
    finally:
        probe.close()


def template_target(name: str, address: str, words: Sequence[str]) -> Target:
    """Return how a node is reached by a site's command.

    Args:
        name: of the node, for `{node}`.
        address: what the site gives as its address, for `{address}`.
        words: the command. `{command}` is what a shell on the node must run, as it is, for
            programs that pass on their arguments; `{quoted}` is the same as one word of a shell,
            for programs such as ssh that pass on one line. With neither, it comes last.
    """
    given = [word.replace("{node}", name).replace("{address}", address) for word in words]
    if not any(COMMAND in word or QUOTED in word for word in given):
        given.append(COMMAND)
    login = " ".join(words[:1])
    return Target(name, address, tuple(given), "python3", CONNECT_S, login=login, is_template=True)
