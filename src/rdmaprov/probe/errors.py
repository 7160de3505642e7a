"""Why nothing is known of a node."""

from rdmaprov.errors import UnreachableError


class NodeError(UnreachableError):
    """A node, or one command on it, gave no answer; the message begins with the node's name."""

    def __str__(self) -> str:
        """Return the message and the remedy as one line."""
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def of_relay(self, node: str) -> "NodeUnreachable":
        """Return that a node is unreachable, where this is about its relay."""
        kind = RelayLied if isinstance(self, RelayLied) else RelayLost
        return kind(f"{node}: its relay {self.message}", self.hint)


class NodeUnreachable(NodeError):
    """A node cannot be asked anything."""


class NodeSilent(NodeUnreachable):
    """A node did not answer ssh in time."""


class RelayLost(NodeUnreachable):
    """A relay is gone, or was never there; another one may ask its nodes anew."""


class RelayLied(NodeUnreachable):
    """A relay sent what no program of ours sends; nothing counts that it told."""


class LoginDropped(NodeUnreachable):
    """An sshd on the way ended the connection before it knew the user; nothing was asked."""


class NoAnswer(NodeError):
    """A node did not answer one command; others it may."""
