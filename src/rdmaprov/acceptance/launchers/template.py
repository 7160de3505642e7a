"""Nodes that are reached by a site's own command: `kubectl exec`, `podman`, another ssh."""

from __future__ import annotations

from collections.abc import Sequence

from rdmaprov.probe.target import Target

CONNECT_S = 60
# What a word of the site's command may have, beside the node's name.
COMMAND, QUOTED = "{command}", "{quoted}"


def template_target(name: str, address: str, words: Sequence[str]) -> Target:
    """Return how a node is reached by a site's command.

    Args:
        name: of the node, for `{node}`.
        address: what the site gives as its address, for `{address}`.
        words: the command. `{command}` is what a shell on the node must run, as it is, for
            programs that pass on their arguments; `{quoted}` is the same as one word of a shell,
            for programs such as ssh that pass on one line. With neither, it comes last.
    """
    given = [word.replace("{node}", name).replace("{address}", address) for word in words]
    if not any(COMMAND in word or QUOTED in word for word in given):
        given.append(COMMAND)
    login = " ".join(words[:1])
    return Target(name, address, tuple(given), "python3", CONNECT_S, login=login, is_template=True)
