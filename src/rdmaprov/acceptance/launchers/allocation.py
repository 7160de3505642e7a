"""Nodes that Slurm gives for an acceptance: made here and given back, or those of a user's job."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.target import Target
from rdmaprov.problem import printable
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler import programs
from rdmaprov.scheduler.programs import SchedulerError, environment, last_line, other_settings
from rdmaprov.scheduler.slurm import WHERE
from rdmaprov.scheduler.slurm_text import expand, fold_parts

WAIT_S = 60  # for nodes, unless the site says --immediate=SECONDS; our choice
_END_S = 20
_DOCS = "docs/ranks.md"
_ABSENT = f"Run accept where Slurm's commands are, or pass --launcher ssh ({_DOCS})"
CONNECT_S = 60
# An image is imported on each node when the first step with it starts there: tens of gigabytes.
IMPORT_S = 1800


@dataclass(frozen=True)
class Allocation:
    """A Slurm job that has nodes."""

    job: str

    def end_state(self) -> str:
        """Return Slurm's word for how the job ended; empty if it runs, or if Slurm does not say."""
        try:
            state = ask("squeue", "-h", "-t", "all", "-j", self.job, "-o", "%T").strip()
        except UnreachableError:
            return ""
        return "" if state == "RUNNING" else printable(state)[:60] or "not known any more"


def allocation_command(
    names: Sequence[str], gpus: int, limit_s: float | None, options: Sequence[str]
) -> list[str]:
    """Return the command that has nodes as long as its standard input is open.

    Args:
        names: of the nodes, as Slurm has them.
        gpus: of each node; a step gets those only that its job has asked for.
        limit_s: of the whole run, where the user sets one.
        options: the site's; they come last, so that they count.
    """
    folded, *more = fold_parts(names)
    if more:
        raise UsageError(
            f"the names of {len(names):,} nodes are too long for one word of a command",
            f"Select fewer with --limit, or pass --launcher ssh ({_DOCS})",
        )
    minutes = [] if limit_s is None else [f"--time={-(-int(limit_s) // 60) + 5}"]
    return [
        "salloc",
        "--quiet",
        "--job-name=rdmaprov-accept",
        f"--nodes={len(names)}",
        f"--nodelist={folded}",
        "--exclusive",
        "--mem=0",
        f"--immediate={WAIT_S}",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
        *minutes,
        *options,
        "/bin/sh",
        "-c",
        'echo "$SLURM_JOB_ID"; exec cat',
    ]


@contextmanager
def allocate(
    names: Sequence[str], gpus: int, limit_s: float | None, options: Sequence[str]
) -> Iterator[Allocation]:
    """Provide nodes; Slurm gets them back with the context, or if this process ends in any way.

    Raises:
        UnreachableError: Slurm gives none; the message has its reason, and nodes that are in use.
    """
    command = allocation_command(names, gpus, limit_s, options)
    process = _start(command)
    try:
        job = _job_number(process, names)
        _check_nodes(names, job, ask("squeue", "-h", "-j", job, "-o", "%N").strip(), WHERE)
        yield Allocation(job)
    except BaseException:
        process.terminate()  # one that still waits withdraws its job; salloc ends in order
        raise
    finally:
        _end(process)


def _job_number(process: subprocess.Popen[bytes], names: Sequence[str]) -> str:
    """Return the job's number once it has its nodes; raise UnreachableError if it gets none."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    job = process.stdout.readline().decode("ascii", "replace").strip()
    if not re.fullmatch(r"\d{1,12}", job):
        said = process.stderr.read() if process.stderr is not None else b""
        raise _refused(names, last_line(said) or "no message")
    return job


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        # An interrupt is for us alone: ranks end first, then the nodes go back.
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise SchedulerError(f"{command[0]}: {error.strerror}", _ABSENT) from error


def _end(process: subprocess.Popen[bytes]) -> None:
    """Give the nodes back."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()  # Slurm notices that its salloc is gone, later
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _refused(names: Sequence[str], why: str) -> UnreachableError:
    cause = re.sub(r"^salloc: error: ", "", why)
    if "Connection timed out" in cause:  # what salloc says when --immediate has passed
        cause = "the nodes were not free in time"
    used = _nodes_in_use(names)
    message = f"Slurm gives no allocation of {fold_names(names)}: {cause}{used and f'; {used}'}"
    hint = "Run: squeue; sinfo -N -R. To wait longer, add --immediate=SECONDS to "
    return UnreachableError(message, hint + "torch_runtime_slurm_options")


def _nodes_in_use(names: Sequence[str]) -> str:
    """Return which nodes are not idle and why, or that Slurm does not know them."""
    try:
        words, parts = ("sinfo", "-h", "-N", "-o", "%N|%T|%E", "-n"), fold_parts(names)
        text = "\n".join(ask(*words, part) for part in parts)
    except UnreachableError:
        return ""
    seen: dict[str, str] = {}
    for line in text.splitlines():
        name, state, reason = [*line.split("|", 2), "", ""][:3]
        # That of a node in service is of earlier, see slurm_text.
        is_out = re.match("drain|down|fail", state) and reason not in ("", "none")
        why = f" ({reason})" if is_out else ""
        seen[name] = printable(f"{state}{why}")[:200]
    states = {name: seen.get(name, "not known to Slurm") for name in names}
    odd: dict[str, list[str]] = {}
    for name, state in states.items():
        if state != "idle":
            odd.setdefault(state, []).append(name)
    return "; ".join(f"{fold_names(those)}: {state}" for state, those in odd.items())


def ask(*argv: str) -> str:
    """Return what one of Slurm's commands printed; raise SchedulerError if it ended badly."""
    return programs.ask(argv, "Run: scontrol ping", _ABSENT)


@contextmanager
def use_job(names: Sequence[str], job: str) -> Iterator[Allocation]:
    """Provide the nodes of a user's job, which stays.

    Raises:
        UnreachableError: it does not run, or lacks nodes.
    """
    state, _, nodes = ask("squeue", "-h", "-j", job, "-o", "%T|%N").strip().partition("|")
    if state != "RUNNING":
        raise UnreachableError(
            f"Slurm's job {job} does not run: {printable(state) or 'not known'}",
            "Run: squeue --me; or leave out --slurm-job, and accept asks for an allocation",
        )
    _check_nodes(names, job, nodes, "Select its nodes with --limit")
    yield Allocation(job)


def _check_nodes(names: Sequence[str], job: str, nodes: str, hint: str) -> None:
    """Raise UnreachableError if a job lacks nodes.

    From 24.11 at the latest, salloc takes other nodes for names that Slurm does not know.
    """
    there = set(expand(nodes))
    missing = [name for name in names if name not in there]
    if missing:
        message = f"Slurm's job {job} does not have {fold_names(missing)}, but {printable(nodes)}"
        raise UnreachableError(message, hint)


def gpus_of(values: Sequence[Mapping[str, object]]) -> int:
    """Return how many GPUs to ask for on each node: what the site says, 0 if it does not."""
    counts = {str(each.get("fabric_gpu_count") or 0) for each in values}
    return int(counts.pop()) if len(counts) == 1 else 0


def step_command(job: str, node: str, image: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the command that hands its last argument to a shell on a node.

    The step has the whole node: `--overlap` and `--mem=0` share what the job has, and no task is
    bound to some processors. `--unbuffered` is needed because answers do not end in a newline.

    Args:
        image: of a container (pyxis); empty for the node itself.
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
