"""A question that only reads, asked once more where the node was silent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleConnectionFailure

# ssh's words where its ConnectTimeout is over, and Ansible's where sudo did not ask in time, so
# that no password was sent.
_SILENCE = re.compile(r"timed out|^Timeout \(")


def ask_twice(connection: Any, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a node answers; a module that changes something must not be asked in this way.

    Raises:
        AnsibleConnectionFailure: there is no connection; it says how long the node was silent.
    """
    try:
        return ask()
    except AnsibleConnectionFailure as error:
        if not _SILENCE.search(str(error)):
            raise
    try:
        return ask()
    except AnsibleConnectionFailure as error:
        if not _SILENCE.search(str(error)):
            raise
        limit = f"{connection.get_option('timeout')} s"
        waited = f"no answer in {limit}, nor in {limit} more"
        raise AnsibleConnectionFailure(f"{str(error).strip()} ({waited})") from None
