"""ssh to a node, as a process of this machine or of a relay."""

import asyncio
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from rdmaprov.probe.errors import NodeError, NodeUnreachable
from rdmaprov.probe.target import Target

END_S = 2


class SshLink(Protocol):
    """ssh to a node: a process here, or one on a relay."""

    @property
    def lost(self) -> NodeError | None:
        """Return why the way to ssh itself is gone; None if it is there."""

    async def open(self, output: asyncio.Protocol, errors: asyncio.Protocol) -> None:
        """Have two protocols get what it writes."""

    def write(self, parts: Sequence[bytes]) -> None:
        """Write to it."""

    def end_input(self) -> None:
        """Write no more."""

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""

    def stop(self) -> None:
        """Have it end."""

    def close(self) -> None:
        """See it end."""


class LocalLink:
    """ssh as a process of this machine."""

    lost = None

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pipes: list[asyncio.BaseTransport] = []

    async def open(self, output: asyncio.Protocol, errors: asyncio.Protocol) -> None:
        """Have two protocols get what it writes."""
        loop, process = asyncio.get_running_loop(), self._process
        self._input, _ = await loop.connect_write_pipe(asyncio.Protocol, process.stdin)
        self._pipes.append(self._input)
        for protocol, pipe in ((output, process.stdout), (errors, process.stderr)):
            reader, _ = await loop.connect_read_pipe(partial(_itself, protocol), pipe)
            self._pipes.append(reader)

    def write(self, parts: Sequence[bytes]) -> None:
        """Write to it."""
        self._input.writelines(parts)

    def end_input(self) -> None:
        """Write no more."""
        self._input.close()

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Have it end: the agent ends with its input."""
        for pipe in self._pipes:
            pipe.close()
        if self._process.poll() is None:
            self._process.terminate()

    def close(self) -> None:
        """See it end."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def start_here(target: Target, argv: Sequence[str]) -> SshLink:
    """Return ssh to a node, started on this machine.

    Raises:
        NodeUnreachable: it cannot be started.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C in a terminal reaches all of this process's group: what runs on the node is
            # ended over this connection, so the connection must outlive the signal.
            process_group=0,
        )
    except OSError as error:
        raise NodeUnreachable(f"{target.name}: {target.argv[0]}: {error.strerror}", "") from error
    return LocalLink(process)


def _itself(protocol: asyncio.Protocol) -> asyncio.Protocol:
    return protocol
