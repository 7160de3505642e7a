"""Talking to a node's virtual machine without its network: QEMU's monitor and the guest agent."""

import base64
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.errors import UnreachableError
from rdmaprov.lab.patience import limit_s

ANSWER_TIMEOUT_S = 30.0
SYNC_TIMEOUT_S = 5.0
POLL_S = 0.1


class _Peer:
    """One end of a line-wise JSON conversation (QEMU's monitor, the guest's agent)."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = connection.makefile("rwb")
        self._numbers = itertools.count(time.monotonic_ns())
        self.wait_at_most = connection.settimeout

    def close(self) -> None:
        with suppress(OSError):  # what could not be sent before cannot be sent now
            self._lines.close()

    def receive(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the other end closed the connection")
        message: dict[str, Any] = json.loads(line.lstrip(b"\xff"))
        return message

    def send(self, execute: str, **arguments: Any) -> int:  # noqa: ANN401 - JSON
        """Send a command, and return the number that its answer will have."""
        number = next(self._numbers)
        request = {"execute": execute, "id": number} | (
            {"arguments": arguments} if arguments else {}
        )
        self._lines.write(json.dumps(request).encode() + b"\n")
        self._lines.flush()
        return number

    def ask(self, execute: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a command.

        QEMU sends the answer to a command of a conversation that was cut to whoever is connected
        when the command ends; that one has another number, and is passed over.
        """
        number = self.send(execute, **arguments)
        while True:
            answer = self.receive()
            if answer.get("id", number) != number:
                continue
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise UnreachableError(
                    f"{execute}: {answer['error'].get('desc')}", "See: rdmaprov lab console NODE"
                )


@contextmanager
def _conversation(path: Path, timeout_s: float) -> Iterator[_Peer]:
    # A socket's path may have 107 bytes; by way of a directory descriptor it always fits.
    directory = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(f"/proc/self/fd/{directory}/{path.name}")
            peer = _Peer(connection)
            try:
                yield peer
            finally:
                peer.close()  # or the connection stays open as long as somebody knows the peer
    finally:
        os.close(directory)


@contextmanager
def qemu(node_dir: Path, timeout_s: float | None = None) -> Iterator[_Peer]:
    """Give QEMU's own monitor of a node, ready for commands."""
    longest_s = limit_s(ANSWER_TIMEOUT_S, node_dir) if timeout_s is None else timeout_s
    with _conversation(node_dir / "qmp.sock", longest_s) as peer:
        peer.receive()
        peer.ask("qmp_capabilities")
        yield peer


@contextmanager
def agent(node: str, node_dir: Path, timeout_s: float) -> Iterator[_Peer]:
    """Give a node's agent, which answers in any state of its network; or raise UnreachableError."""
    with ExitStack() as stack:
        try:
            peer = _sync(stack, node_dir, timeout_s)
            peer.wait_at_most(timeout_s)
            yield peer
        except (OSError, ValueError) as error:
            raise UnreachableError(
                f"{node} does not answer, not even on its console channel ({error})",
                f"Run: rdmaprov lab console {node}",
            ) from error


def _sync(stack: ExitStack, node_dir: Path, timeout_s: float) -> _Peer:
    """Return the agent once it answers to what is asked now.

    A conversation that was cut may leave an answer behind, which is passed over, and may take the
    first line of the next one along with it, so that is asked again.
    """
    asked: list[int] = []  # what is left behind may be of any type, also one that no set takes
    give_up = time.monotonic() + timeout_s
    attempt_s = min(limit_s(SYNC_TIMEOUT_S, node_dir), timeout_s)
    while True:
        attempt = stack.enter_context(ExitStack())
        peer = attempt.enter_context(_conversation(node_dir / "agent.sock", attempt_s))
        number = time.monotonic_ns() & 0xFFFFFFFF
        asked.append(number)
        try:
            peer.send("guest-sync-delimited", id=number)
            while peer.receive().get("return") not in asked:
                pass
        except TimeoutError:
            if time.monotonic() >= give_up:
                raise
            attempt.close()
        else:
            return peer


@dataclass(frozen=True)
class ProgramExit:
    """How a program inside a node ended."""

    returncode: int
    stdout: str
    stderr: str


def run_inside(node: str, node_dir: Path, script: str, timeout_s: float) -> ProgramExit:
    """Run a script as root over the console channel; UnreachableError: no answer in timeout_s."""
    give_up = time.monotonic() + timeout_s
    with agent(node, node_dir, timeout_s) as peer:
        started = peer.ask(
            "guest-exec",
            **{
                "path": "/bin/sh",
                "arg": ["-s"],
                "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"],
                "input-data": base64.b64encode(script.encode()).decode(),
                "capture-output": True,
            },
        )
        while True:
            status = peer.ask("guest-exec-status", pid=started["pid"])
            if status["exited"]:
                return ProgramExit(
                    int(status.get("exitcode", -int(status.get("signal", 1)))),
                    base64.b64decode(status.get("out-data", "")).decode(errors="replace"),
                    base64.b64decode(status.get("err-data", "")).decode(errors="replace"),
                )
            if time.monotonic() > give_up:
                raise UnreachableError(
                    f"{node}: a command ran past {timeout_s:.0f} s",
                    f"Run: rdmaprov lab console {node}",
                )
            time.sleep(POLL_S)


def reboot(node: str, node_dir: Path, timeout_s: float) -> bool:
    """Return whether a node went down by itself, or was reset; UnreachableError: QEMU is silent."""
    try:
        with qemu(node_dir, timeout_s) as machine:
            try:
                with agent(node, node_dir, limit_s(ANSWER_TIMEOUT_S, node_dir)) as peer:
                    peer.send("guest-shutdown", mode="reboot")
                while machine.receive().get("event") != "RESET":
                    pass
            except (UnreachableError, TimeoutError):
                machine.ask("system_reset")
                return False
            return True
    except OSError as error:
        raise UnreachableError(
            f"the virtual machine of {node} does not answer ({error})", "Run: rdmaprov lab up"
        ) from error
