#!/usr/bin/env python3
"""Answer requests for commands until standard input ends. Runs on the node; needs Python 3.6.

    python3 -I -S agent.py MARK

The first line of its own is MARK; whatever a login shell printed comes before it. A request is a
line of JSON with `id`, `command`, `limit` in seconds and, if the command reads something, `input`
in base64. Its answer, in the order of their ends, has the same `id` and either `rc`, `out` and
`err`, or in `error` why there are none. It writes no file, so a full disk is no obstacle.
"""

import base64
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time

AT_ONCE = 8
IDLE_S = 900  # without a request, the controller is gone and ssh does not know it
MOST_BYTES = 8 * 1024 * 1024  # of one command's output; the controller keeps all nodes'
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # where ip, dcb and ethtool are; not in a user's PATH
OUT = threading.Lock()
STARTING = threading.Lock()
RUNNING = set()  # type: ignore[var-annotated]


class Refused(Exception):
    """There is no result."""


def answer(entry):
    """Write one answer."""
    line = json.dumps(entry).encode("ascii") + b"\n"
    with OUT:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def text(data):
    """Return output as text that has each byte of it."""
    return data.decode("utf-8", "surrogateescape")


def exchange(process, given, limit):
    """Give a process its input and return what it wrote; raise Refused at one of the limits."""
    end = time.monotonic() + limit
    written = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as ready:
        for stream in written:
            ready.register(stream, selectors.EVENT_READ)
        if given:
            os.set_blocking(process.stdin.fileno(), False)
            ready.register(process.stdin, selectors.EVENT_WRITE)
        while ready.get_map():
            events = ready.select(end - time.monotonic())
            if time.monotonic() >= end:
                raise Refused("no answer in {:g} s".format(limit))
            for key, _ in events:
                if key.fileobj is process.stdin:
                    given = feed(process.stdin, given)
                    if not given:
                        ready.unregister(process.stdin)
                    continue
                data = os.read(key.fd, 65536)
                if not data:
                    ready.unregister(key.fileobj)
                written[key.fileobj] += data
                if len(written[key.fileobj]) > MOST_BYTES:
                    raise Refused("it prints more than {} bytes".format(MOST_BYTES))
    try:
        process.wait(max(0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Refused("no answer in {:g} s".format(limit))
    return bytes(written[process.stdout]), bytes(written[process.stderr])


def feed(stream, given):
    """Return what is left of an input after a part of it was written; the end closes it."""
    try:
        given = given[os.write(stream.fileno(), given[:65536]) :]
    except BrokenPipeError:
        given = b""
    if not given:
        stream.close()
    return given


def run(request):
    """Return the result of a command, or why there is none."""
    given = base64.b64decode(request.get("input") or "")
    try:
        with STARTING:
            process = subprocess.Popen(
                ["/bin/sh", "-c", request["command"]],
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            RUNNING.add(process)
    except (OSError, ValueError) as error:
        return {"error": "it cannot be started: {}".format(error)}
    try:
        out, err = exchange(process, given, request["limit"])
        return {"rc": process.returncode, "out": text(out), "err": text(err)}
    except Refused as error:
        kill(process)
        return {"error": str(error)}
    finally:
        RUNNING.discard(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def kill(process):
    """End a command and what it started; one that hangs in the kernel is left alone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(1)
    except (OSError, subprocess.TimeoutExpired):
        pass


def work(requests):
    """Answer requests one after the other."""
    while True:
        request = requests.get()
        try:
            entry = run(request)
        except Exception as error:
            entry = {"error": "the agent fails: {!r}".format(error)}
        entry["id"] = request["id"]
        try:
            answer(entry)
        except OSError:
            stop()


def stop(*_signal):
    """End everything at once: whoever asked is gone."""
    STARTING.acquire(timeout=1)  # so that what was started is known
    for process in list(RUNNING):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
    os._exit(0)


def main(mark):
    """Serve until standard input ends."""
    os.environ["LC_ALL"] = "C"
    os.environ["PATH"] = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin") + ":" + SBIN
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(IDLE_S)
    requests = queue.Queue()
    sys.stdout.buffer.write(b"\n" + mark.encode("ascii") + b"\n")
    sys.stdout.buffer.flush()
    started = 0
    most = max(2, min(AT_ONCE, os.cpu_count() or 1))
    for line in iter(sys.stdin.buffer.readline, b""):
        signal.alarm(IDLE_S)
        requests.put(json.loads(line.decode("utf-8")))
        if started < most:
            started += 1
            threading.Thread(target=work, args=(requests,), daemon=True).start()
    stop()


if __name__ == "__main__":
    main(sys.argv[1])
