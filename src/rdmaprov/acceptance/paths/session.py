"""Programs on nodes that do one step after another: started, asked, and ended.

On each node, the supervisor starts node/path_runner.py and ends it with all that it started: with
the session, at the time limit, or when the controller is gone.
"""

import base64
import json
import secrets
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import Nodes, ask_nodes, program_command
from rdmaprov.acceptance.ranks.events import parse_status
from rdmaprov.acceptance.ranks.request import LEASE_S, STARTING_S
from rdmaprov.acceptance.ranks.run import POLL_S
from rdmaprov.boundary import Document, OddAnswer, parse_answer
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.script import node_script

_RUNNER = Path(__file__).parents[1] / "node/path_runner.py"
_START_S, _STOP_S = 60.0, 40.0
# Polls without an answer until a node counts as gone: within the lease.
_MOST_MISSED = 2
_INTERVAL_S = 0.1
# A node itself waits for its result, tenths of a second: a poll costs more than they do.
_TENTHS = 10
_PLACES = ("/run", "/dev/shm", "/tmp")  # noqa: S108 - as node/supervisor.py has them
Step = dict[str, Any]


class PathSession:
    """The runners of some nodes.

    Attributes:
        lost: nodes whose runner did not start or is gone, with the reason.
        left: by node, the processes that could not be ended.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.lost: dict[str, str] = {}
        self.left: dict[str, tuple[int, ...]] = {}
        self._nodes = nodes
        self._marks: dict[str, str] = {}
        self._directories: dict[str, str] = {}
        self._steps: dict[str, int] = {}

    def start(self, names: Iterable[str], limit_s: float) -> None:
        """Start the runners.

        Args:
            limit_s: seconds after which they end by themselves.
        """
        run_id = secrets.token_hex(6)
        # One for each node: in tests, several are on one machine.
        self._marks = {name: f"rdmaprov-accept-{run_id}-{i}" for i, name in enumerate(names)}
        request = _start_request(limit_s)
        commands = {
            name: program_command("supervisor", request, _START_S, mark)
            for name, mark in self._marks.items()
        }
        for name, answer in ask_nodes(self._nodes, commands, lambda _: shapes.STARTED).items():
            if isinstance(answer, NodeError):
                self.lost[name] = str(answer)
            elif answer["directory"] not in [f"{each}/{self._marks[name]}" for each in _PLACES]:
                self.lost[name] = "its supervisor names a directory that is none of a run's"
            else:
                self._directories[name] = answer["directory"]

    def take(
        self, steps: Mapping[str, Step], limit_s: float, least_s: float = 0.0
    ) -> dict[str, list[Document]]:
        """Have nodes do a step each; return what came of it, without the nodes that are lost.

        Args:
            steps: by node.
            limit_s: seconds until a node that has not answered counts as lost.
            least_s: seconds that it takes at least; nodes are not asked before.
        """
        found: dict[str, list[Document]] = {}
        missed: Counter[str] = Counter()
        pushed: set[str] = set()
        end = time.monotonic() + limit_s
        while waiting := [name for name in steps if name not in {*found, *self.lost}]:
            self._ask(waiting, steps, pushed, missed, found)
            late = {name for name in waiting if name not in found}
            if late and time.monotonic() > end:
                self.lost.update(dict.fromkeys(late, f"it did not finish a step in {limit_s:g} s"))
            elif late:
                time.sleep(max(_INTERVAL_S, least_s))
                least_s = 0.0
        return found

    def _ask(
        self,
        waiting: Iterable[str],
        steps: Mapping[str, Step],
        pushed: set[str],
        missed: Counter[str],
        found: dict[str, list[Document]],
    ) -> None:
        """Ask nodes once; take in what is done, and who is lost."""
        data = {n: b"" if n in pushed else json.dumps(steps[n]).encode() for n in waiting}
        commands = {name: self._poll(name, given) for name, given in data.items()}
        for name, answer in self._nodes.run_all(commands).items():
            if isinstance(answer, NodeError):
                missed[name] += 1
                if missed[name] >= _MOST_MISSED:
                    self.lost[name] = str(answer)
                continue
            missed[name] = 0
            pushed.add(name)
            done = self._read(name, answer, steps[name])
            if done is not None:
                found[name] = done
                self._steps[name] = self._steps.get(name, 0) + 1

    def stop(self) -> None:
        """End the runners, and remove what they wrote."""
        commands = {
            name: program_command("supervisor", {"verb": "stop", "mark": mark}, _STOP_S)
            for name, mark in self._marks.items()
        }
        for name, answer in ask_nodes(self._nodes, commands, lambda _: shapes.STOPPED).items():
            if not isinstance(answer, NodeError):
                self.left[name] = tuple(answer["left"])

    def _poll(self, name: str, data: bytes) -> Command:
        """Return the command that renews the lease, and reads what came of the step."""
        number = self._steps.get(name, 0)
        step, done = f"step.{number}.json", f"done.{number}.json"
        # Whole or not at all; doing it twice does no harm.
        push = (
            f"cat > {step}.new && [ $(wc -c < {step}.new) -eq {len(data)} ] && "
            f"mv {step}.new {step} && "
        )
        wait = f"i=0; while [ ! -e {done} ] && [ $((i += 1)) -le {_TENTHS} ]; do sleep 0.1; done"
        text = (
            f"cd {shlex.quote(self._directories[name])} && touch lease && {push if data else ''}"
            f"{{ {wait}; }} && {{ cat status 2>/dev/null || echo '{{}}'; }} && "
            f"{{ cat {done} 2>/dev/null || :; }}"
        )
        return Command(text, POLL_S, data)

    def _read(self, name: str, answer: Answer, step: Step) -> list[Document] | None:
        """Return what came of a step; None if that is not known yet, or the node is lost."""
        head, _, text = answer.out.partition("\n")
        if answer.rc != 0 or not head.startswith("{"):
            self.lost[name] = "its supervisor is gone: something on the node ended it"
            return None
        try:
            status = parse_status(head, range(0))
            if text.strip():
                check = shapes.path_step(frozenset(_ids(step)), "serve" not in step)
                done: list[Document] = parse_answer(text, check)
                return done
        except OddAnswer as error:
            self.lost[name] = str(error)
            return None
        if status["rc"] is not None:
            why = status["why"] or f"exit status {status['rc']}"
            self.lost[name] = f"its runner of perftests has ended: {why}"
        return None


def _ids(step: Step) -> Iterator[int]:
    """Yield the numbers of the perftests that a step is about."""
    for each in step.get("serve") or step.get("run") or ():
        yield each["id"]
    yield from step.get("end", ())


def _start_request(limit_s: float) -> Document:
    return {
        "verb": "start",
        "argv": ["python3", "-I", "{directory}/path_runner.py"],
        # perftest's numbers of GPUs are then those of nvidia-smi (CUDA C programming guide).
        "environment": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        "files": {"path_runner.py": base64.b64encode(node_script(_RUNNER)).decode()},
        "limit_s": limit_s,
        "lease_s": LEASE_S,
        "starting_s": STARTING_S,
    }
