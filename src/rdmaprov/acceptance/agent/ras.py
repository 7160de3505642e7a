"""What NCCL's RAS says of the job that this rank is in, before the rank is ended.

RAS is in NCCL since 2.24; a thread of one process of each node answers there (NCCL's user guide,
"RAS"). It dies with the ranks, so only a rank can ask it in time.
"""

from __future__ import annotations

import os
import socket
import time

PORT = 28028
# It waits for processes that do not answer; its own default, 5, is more than the time that is left.
_TIMEOUT_S = 2
LIMIT_S = 4.0
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
    try:
        with socket.create_connection(("localhost", port), limit_s) as each:
            each.sendall(_REQUEST)
            while len(said) < _MOST_BYTES and (left := end - time.monotonic()) > 0:
                each.settimeout(left)
                more = each.recv(65536)
                if not more:
                    break
                said += more
    except OSError:
        pass  # what came until then may be enough
    text = said.decode("ascii", "replace")
    return text[max(0, text.find("\nErrors\n")) :][:_MOST_CHARACTERS]
