"""What NCCL's RAS says of the job that this rank is in, before the rank is ended.

RAS is in NCCL since 2.24; a thread of each process answers there (NCCL's user guide, "RAS"), those
of a node on one port. It dies with the ranks, so only a rank can ask it in time.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import ExitStack, suppress

PORT = 28028
# It waits for processes that do not answer; its own default, 5, is more than the time that is left.
_TIMEOUT_S = 2
LIMIT_S = 4.0
# Without an answer for so long, another process of the node is tried.
_NEXT_S = 0.3
# Any node's RAS knows of all; of the first ones asked, one may be what hangs.
_NODES = 3
_MOST_CHARACTERS = 4000
_MOST_BYTES = 1 << 20
_REQUEST = f"CLIENT PROTOCOL 2\nTIMEOUT {_TIMEOUT_S}\nSTATUS\n".encode()


def ask_or_wait() -> str:
    """Return what RAS says, on one rank of each of the first nodes; the others there wait for it.

    A rank that ends takes the others of its node along.
    """
    if int(os.environ.get("GROUP_RANK", "0")) >= _NODES:
        return ""
    if os.environ.get("LOCAL_RANK") != "0":
        time.sleep(LIMIT_S)
        return ""
    return ask(PORT, LIMIT_S)


def ask(port: int, limit_s: float) -> str:
    """Return the part of RAS's report about errors, empty if none came in time."""
    end, said = time.monotonic() + limit_s, b""
    with ExitStack() as stack, suppress(OSError):  # what came until then may be enough
        answering = _first_that_answers(port, end, stack)
        while len(said) < _MOST_BYTES and answering and (left := end - time.monotonic()) > 0:
            answering.settimeout(left)
            more = answering.recv(65536)
            if not more:
                break
            said += more
    text = said.decode("ascii", "replace")
    return text[max(0, text.find("\nErrors\n")) :][:_MOST_CHARACTERS]


def _first_that_answers(port: int, end: float, stack: ExitStack) -> socket.socket | None:
    """Return the first connection that has an answer, None if none has one in time.

    All ranks of a node listen on one port (SO_REUSEPORT in rasClientInitSocket), and the kernel
    chooses among them by the connection's source port, also those that are stopped.
    """
    asked: list[socket.socket] = []
    while (left := end - time.monotonic()) > 0:
        each = stack.enter_context(socket.create_connection(("localhost", port), left))
        each.sendall(_REQUEST)
        asked.append(each)
        answering, _, _ = select.select(asked, [], [], min(_NEXT_S, left))
        if answering:
            found: socket.socket = answering[0]
            return found
    return None
