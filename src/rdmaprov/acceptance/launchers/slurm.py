"""Nodes that are reached by steps of a Slurm job: one step for each, as long as the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.launchers.allocation import Allocation
from rdmaprov.errors import UnreachableError
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.target import Target
from rdmaprov.scheduler.programs import other_settings

CONNECT_S = 60
# An image is imported on each node when the first step with it starts there: tens of gigabytes.
IMPORT_S = 1800


def step_command(job: str, node: str, image: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the command that hands its last argument to a shell on a node.

    The step has the whole node: `--overlap` and `--mem=0` share what the job has, and no task is
    bound to some processors. `--unbuffered` is needed because answers do not end in a newline.

    Args:
        job: number of the job that has the node.
        node: its name in Slurm.
        image: of a container (pyxis); empty for the node itself.
        options: the site's own.
    """
    others = [f"--unset={name}" for name in other_settings()]
    return (
        *(["env", *others] if others else []),
        "srun", "--quiet", f"--jobid={job}", "--nodes=1", "--ntasks=1", f"--nodelist={node}",
        "--overlap", "--mem=0", "--cpu-bind=none", "--mpi=none", "--export=NONE", "--unbuffered",
        *([f"--container-image={image}"] if image else []), *options, "/bin/sh", "-c",
    )  # fmt: skip


def step_target(job: str, node: str, image: str, options: Sequence[str]) -> Target:
    """Return how a node is reached by a step."""
    argv = step_command(job, node, image, options)
    limit = IMPORT_S if image else CONNECT_S
    login = f"srun --jobid={job} --overlap --nodelist={node} --pty bash"
    return Target(node, node, argv, "python3", limit, login=login)


class SlurmNodes:
    """The nodes of an allocation, as `Nodes` has them.

    An allocation that ends is no fault of its nodes: then a run stops instead of blaming them.
    """

    def __init__(self, nodes: Nodes, allocation: Allocation) -> None:
        self._nodes = nodes
        self._allocation = allocation

    def run_all(self, commands: Mapping[str, Command]) -> dict[str, Answer | NodeError]:
        """Return what each node's command gave, or why there is nothing.

        Raises:
            UnreachableError: Slurm took the nodes back.
        """
        answers = self._nodes.run_all(commands)
        if any(isinstance(answer, NodeError) for answer in answers.values()) and (
            state := self._allocation.end_state()
        ):
            message = f"Slurm ended the job {self._allocation.job}: {state}"
            hint = "TIMEOUT: add a longer --time to torch_runtime_slurm_options; run accept again"
            raise UnreachableError(message, hint)
        return answers
