"""Batches of a roll, each in a process of its own: a slow node holds up no other batch."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from tempfile import TemporaryFile
from typing import IO, Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.node.hunt import follow_parent
from rdmaprov.replace.steps import APPLY, Stopped

_MOST = 4  # each is a run of Ansible, which reads the whole site; our choice
_FORK = multiprocessing.get_context("fork")
_STOPS = {signal.SIGINT}
_LOST = Stopped(ExitCode.UNKNOWN, APPLY, "its batch was interrupted", stays=True)


@dataclass
class Batches:
    """Nodes that are drained and empty, proven in forks; what these print is shown at their end."""

    # proves nodes, in a fork; returns how it ended for each, and their results
    prove: Callable[[Sequence[str]], tuple[Mapping[str, Stopped], object]]
    receive: Callable[[Any], object]  # is given these results
    show: Callable[[str], None]
    running: dict[Connection, tuple[Sequence[str], ForkProcess, IO[str]]] = field(
        default_factory=dict
    )

    def has_room(self) -> bool:
        """Return whether one more batch can start."""
        return len(self.running) < _MOST

    def start(self, nodes: Sequence[str]) -> None:
        """Begin with nodes."""
        ours, theirs = _FORK.Pipe(duplex=False)
        output = TemporaryFile("w+", errors="backslashreplace")  # noqa: SIM115 - until the end
        process = _FORK.Process(target=self._work, args=(nodes, theirs, output))
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # lost, until the fork is ready for it
        process.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        theirs.close()
        self.running[ours] = (nodes, process, output)

    def _work(self, nodes: Sequence[str], answer: Connection, output: IO[str]) -> None:
        os.setsid()  # a Ctrl-C on the terminal is for the roll, which interrupts this once
        follow_parent()  # type: ignore[no-untyped-call]
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        sys.stdout = sys.stderr = output
        with suppress(KeyboardInterrupt):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            answer.send(self.prove(nodes))

    def ended(self) -> Iterator[Mapping[str, Stopped]]:
        """Yield how each batch ended that is done, by node; once."""
        for answer in [each for each in self.running if each.poll()]:
            nodes, process, output = self.running.pop(answer)
            found: Mapping[str, Stopped] = dict.fromkeys(nodes, _LOST)
            with suppress(EOFError):  # it was interrupted, or killed
                found, results = answer.recv()
                self.receive(results)
            process.join()
            with output:
                output.seek(0)
                self.show(output.read())
            yield found

    def stop(self) -> None:
        """Interrupt all batches, and wait until they end."""
        for _, process, _ in self.running.values():
            os.kill(process.pid or 0, signal.SIGINT)
        for answer in self.running:
            answer.poll(None)
