"""What the kernel counts of a process's own connections."""

from __future__ import annotations

import socket

from rdmaprov.acceptance.agent import links


def test_connections_of_this_process_with_their_segments():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        one.sendall(b"x" * 1_000_000)
        left = 1_000_000
        while left:
            left -= len(other.recv(65536))
        own = [each for each in links.connections() if each["from"] == "127.0.0.1"]
        sent = max(each["segments"] for each in own if each["to"] == "127.0.0.1")
        # A loopback's segment carries 64 KiB at most, and no less than an Ethernet's.
        assert 1_000_000 / 65536 <= sent <= 1_000_000 / 1000
        assert all(each["again"] == 0 for each in own)


def test_bytes_that_devices_sent_meanwhile():
    before = links.sent_bytes()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as each:
        each.sendto(b"x" * 5000, ("127.0.0.1", 9))
    assert links.moved_bytes(before)["lo"] >= 5000
