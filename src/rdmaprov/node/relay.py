#!/usr/bin/env python3
"""Carry TCP connections from one address to another one, one after the other, until it is ended.

    python3 -I -S relay.py HOST PORT TO

It listens at HOST and connects to TO, at the same port. Runs on the node; needs Python 3.6.
"""

import select
import socket
import sys


def serve(host, port, to):
    """Carry each connection; one whose other end does not listen is closed."""
    with _socket(host) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1)
        while True:
            one, _ = listener.accept()
            with one, _socket(to) as other:
                try:
                    other.connect((to, port))
                    carry(one, other)
                except OSError:
                    pass  # who connected sees the end, and says so


def carry(one, other):
    """Write to each what the other one sends, until both have ended."""
    to = {one: other, other: one}
    while to:
        for each in select.select(list(to), [], [])[0]:
            data = each.recv(65536)
            if data:
                to[each].sendall(data)
            else:
                to.pop(each).shutdown(socket.SHUT_WR)


def _socket(host):
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
