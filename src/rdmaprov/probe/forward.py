#!/usr/bin/env python3
"""Start ssh to nodes, and pass on what it reads and writes. Runs on a relay; needs Python 3.6.

    python3 -I -S forward.py MARK

The first line of its own is MARK. A request is a line "NODE WHAT COUNT", where WHAT is

    start   a program, whose words of COUNT bytes follow, with a zero between two
    write   COUNT bytes to the program; they follow
    share   COUNT bytes that many programs get are kept as number NODE; they follow
    use     what was kept as number COUNT, written to the program
    end     the program

An answer is as the agent's, a line "NODE STATUS LENGTH LENGTH", then that many bytes of the
program's output and errors; STATUS is "-" until it ended. It writes no file, and knows no node by
name: which number is whose, the controller knows alone.
"""

import os
import resource
import selectors
import signal
import subprocess
import sys
import time

READ_BYTES = 65536
END_S = 0.01  # between looks at a program that closed its output and has not ended
IDLE_S = 900  # without a request, the controller is gone and ssh does not know it


class Forwarded:
    """A program that talks to a node: what it is still to read, and which outputs are open."""

    def __init__(self, argv):
        self.unread = []
        self.outputs = 2
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        os.set_blocking(self.process.stdin.fileno(), False)


class Relay:
    """The programs that run, and the requests that come in."""

    def __init__(self):
        self.nodes = {}
        self.ending = set()  # those that closed their outputs
        self.shared = {}
        self.received = b""
        self.unsent = []
        self.heard = time.monotonic()
        self.starting = self.leaving = False
        self.selector = selectors.DefaultSelector()

    def serve(self):
        """Pass on until there is nobody to answer."""
        self.selector.register(0, selectors.EVENT_READ, self.hear)
        while True:
            for key, _ in self.selector.select(END_S if self.ending else IDLE_S):
                if key.data() is False:
                    return
            for number in list(self.ending):
                self.finish(number)
            self.send()
            if time.monotonic() > self.heard + IDLE_S:
                return

    def hear(self):
        """Take requests; say whether there may be more."""
        more = os.read(0, 1 << 20)
        self.heard = time.monotonic()
        data, at = self.received + more, 0
        while True:
            end = data.find(b"\n", at)
            if end < 0:
                break
            number, what, count = data[at:end].split()
            last = end + 1 + (0 if what in (b"use", b"end") else int(count))
            if len(data) < last:
                break
            self.take(int(number), what, int(count), data[end + 1 : last])
            at = last
        self.received = data[at:]
        return bool(more)

    def take(self, number, what, count, data):
        """Do what a request says."""
        if what == b"start":
            self.start(number, data)
        elif what == b"share":
            self.shared[number] = data
        elif number in self.nodes:  # else it ended a moment ago
            node = self.nodes[number]
            if what == b"end":
                self.close(node.process.stdin)
                node.process.terminate()
            else:
                node.unread.append(memoryview(self.shared[count] if what == b"use" else data))
                self.feed(node)

    def start(self, number, words):
        """Start a program, or answer why that cannot be."""
        argv = words.split(b"\0")
        self.starting = True
        try:
            node = self.nodes[number] = Forwarded(argv)
        except OSError as error:
            said = "{}: {}".format(os.fsdecode(argv[0]), error.strerror)
            self.answer(number, 127, b"", said.encode("utf-8", "surrogateescape"))
            return
        finally:
            self.starting = False
            if self.leaving:
                sys.exit()
        for stream, place in ((node.process.stdout, 0), (node.process.stderr, 1)):
            self.selector.register(
                stream,
                selectors.EVENT_READ,
                lambda stream=stream, place=place: self.read(number, stream, place),
            )

    def read(self, number, stream, place):
        """Pass on what a program wrote."""
        data = os.read(stream.fileno(), READ_BYTES)
        if data:
            self.answer(number, "-", *((b"", data) if place else (data, b"")))
        else:
            self.close(stream)
            self.nodes[number].outputs -= 1
            if not self.nodes[number].outputs:
                self.ending.add(number)

    def feed(self, node):
        """Write as much as a program reads now, and the rest when it reads on."""
        stdin = node.process.stdin
        try:
            while node.unread and not stdin.closed:
                done = os.write(stdin.fileno(), node.unread[0])
                node.unread[0] = node.unread[0][done:]
                if not node.unread[0]:
                    del node.unread[0]
        except BlockingIOError:
            if stdin not in self.selector.get_map():
                self.selector.register(stdin, selectors.EVENT_WRITE, lambda: self.feed(node))
            return
        except OSError:
            self.close(stdin)  # it ended; its status says why
        if stdin.closed:
            del node.unread[:]
        elif stdin in self.selector.get_map():
            self.selector.unregister(stdin)

    def close(self, stream):
        """Close a stream; a second time there is nothing to close."""
        if not stream.closed:
            if stream in self.selector.get_map():
                self.selector.unregister(stream)
            stream.close()

    def finish(self, number):
        """Answer how a program ended, if it has."""
        node = self.nodes[number]
        status = node.process.poll()
        if status is not None:
            self.close(node.process.stdin)
            del self.nodes[number]
            self.ending.discard(number)
            self.answer(number, status, b"", b"")

    def answer(self, number, status, out, err):
        """Have an answer sent, with all that there are by then."""
        head = "{} {} {} {}\n".format(number, status, len(out), len(err))
        self.unsent += [head.encode("ascii"), out, err]

    def send(self):
        """Write the answers."""
        data = memoryview(b"".join(self.unsent))
        del self.unsent[:]
        while data:
            data = data[os.write(1, data) :]

    def stop(self, *_signal):
        """Leave, once what is being started is known."""
        self.leaving = True
        if not self.starting:
            sys.exit()

    def end_all(self):
        """End what runs: a node's agent ends with its connection."""
        for node in self.nodes.values():
            node.process.terminate()


def main(mark):
    """Serve until standard input ends."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    relay = Relay()
    signal.signal(signal.SIGTERM, relay.stop)
    signal.signal(signal.SIGHUP, relay.stop)
    os.write(1, b"\n" + mark.encode("ascii") + b"\n")
    try:
        relay.serve()
    finally:
        relay.end_all()


if __name__ == "__main__":
    main(sys.argv[1])
