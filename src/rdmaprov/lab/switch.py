"""The lab's Ethernet switch: one learning switch for each rail, over Unix datagram sockets.

QEMU's dgram backend sends each frame as one datagram. vde_switch would do the same job but
cuts frames at 1504 bytes, and RoCE needs 4200. Run as `python -m rdmaprov.lab.switch RAILS
DIRECTORY` to make the sockets rail0, rail1, ... in that directory; senders are answered by the
names they bound, so they and the switch run in the same working directory.
"""

import selectors
import socket
import struct
import sys
from pathlib import Path

MAX_FRAME_BYTES = 65536
MULTICAST_BIT = 0x01
# A virtual machine that does not take a frame for this long has lost it, as its queue must not
# hold up the others'. A busy emulated one was seen to lose 25 frames at 0.2 s.
SEND_PATIENCE_S = 1.0


class Plane:
    """One broadcast domain: rail i of every node."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path.unlink(missing_ok=True)
        self.socket.bind(str(path))
        seconds, fraction = divmod(SEND_PATIENCE_S, 1)
        self.socket.setsockopt(
            socket.SOL_SOCKET,
            socket.SO_SNDTIMEO,
            struct.pack("ll", int(seconds), int(fraction * 1e6)),
        )
        self._peers: set[str] = set()
        self._stuck: set[str] = set()
        self._peer_of_mac: dict[bytes, str] = {}

    def forward_one(self) -> None:
        """Take one frame and send it where its destination was last heard, or everywhere."""
        frame, sender = self.socket.recvfrom(MAX_FRAME_BYTES)
        if not sender:
            return
        self._peers.add(sender)
        self._peer_of_mac[frame[6:12]] = sender
        receiver = self._peer_of_mac.get(frame[:6])
        if receiver is None or frame[0] & MULTICAST_BIT:
            for peer in self._peers - {sender}:
                self._send(frame, peer)
        elif receiver != sender:
            self._send(frame, receiver)

    def _send(self, frame: bytes, peer: str) -> None:
        try:
            # Who lost a frame by not taking it in time is not waited for until it takes one.
            self.socket.sendto(frame, socket.MSG_DONTWAIT if peer in self._stuck else 0, peer)
            self._stuck.discard(peer)
        except BlockingIOError:
            self._stuck.add(peer)
        except OSError:  # the machine behind it is gone
            self._peers.discard(peer)


def serve(rails: int, directory: Path) -> None:
    """Forward frames for ever, rail by rail."""
    selector = selectors.DefaultSelector()
    for rail in range(rails):
        plane = Plane(directory / f"rail{rail}")
        selector.register(plane.socket, selectors.EVENT_READ, plane)
    while True:
        for key, _ in selector.select():
            key.data.forward_one()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
