"""Which launcher a site, or the command line, asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rdmaprov.acceptance.launchers import IN_JOBS
from rdmaprov.errors import UsageError
from rdmaprov.inventory import Node

LAUNCHER = "torch_runtime_launcher"
IMAGE, PYTHON = "torch_runtime_launch_image", "torch_runtime_launch_python"
COMMAND = "torch_runtime_launch_command"
SLURM_OPTIONS, STEP_OPTIONS = "torch_runtime_slurm_options", "torch_runtime_slurm_step_options"


@dataclass(frozen=True)
class LaunchChoice:
    """How nodes are reached."""

    launcher: str  # one of `launchers.LAUNCHERS`
    job: str = ""  # number of a Slurm job of the user's to run in; empty to make one

    @property
    def is_job(self) -> bool:
        """Return whether nodes are reached by a job of their scheduler."""
        return self.launcher in IN_JOBS


def choose(nodes: Sequence[Node], launcher: str, job: str) -> LaunchChoice:
    """Return the launcher for some nodes.

    Args:
        nodes: of the site; it has one launcher for all of them.
        launcher: of the command line; empty for the site's.
        job: of the command line; empty for none.

    Raises:
        UsageError: nodes differ, or the options exclude each other.
    """
    wanted = sorted({str(node.get(LAUNCHER) or "ssh") for node in nodes})
    if len(wanted) > 1 and not launcher:
        raise UsageError(
            f"the nodes have different launchers ({LAUNCHER}): {', '.join(wanted)}",
            "Pass --launcher, or select nodes of one of them with --limit",
        )
    chosen = launcher or wanted[0]
    if job and chosen not in IN_JOBS:
        raise UsageError(
            f"--slurm-job needs the launcher slurm, not {chosen}", "Add --launcher slurm"
        )
    if chosen == "command" and not all(node.get(COMMAND) for node in nodes):
        raise UsageError(
            f"the launcher command needs {COMMAND} on every node",
            "Set it in the site; docs/ranks.md has examples",
        )
    return LaunchChoice(chosen, job)


def with_launcher(node: Node, launcher: str) -> Node:
    """Return a node that is reached by this launcher, whatever its site says."""
    return replace(node, values={**node.values, LAUNCHER: launcher})


def image_of(node: Node) -> str:
    """Return the image that ranks run in, empty for none that Slurm is asked for."""
    return str(node.get(IMAGE) or "") if node.get(LAUNCHER) in IN_JOBS else ""


def python_of(node: Node) -> str:
    """Return the interpreter that has torch: the site's for this launcher, or the role's.

    In an image it is found on the image's PATH unless the site names it.
    """
    chosen = node.get(PYTHON) or ("python3" if image_of(node) else "")
    if is_prepared_elsewhere(node) and chosen:
        return str(chosen)
    if node.get("torch_runtime_kind") == "venv":
        return f"{node.get('torch_runtime_directory')}/bin/python"
    return str(node.get("torch_runtime_python"))


def is_prepared_elsewhere(node: Node) -> bool:
    """Return whether what the role leaves on the node is not what ranks run in."""
    return node.get(LAUNCHER) not in (None, "ssh")
