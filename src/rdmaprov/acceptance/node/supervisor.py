#!/usr/bin/env python3
"""Start a program on a node and see to its end, whatever happens. Needs Python 3.6.

    python3 -c LOADER MARK   with its source and then one JSON document on standard input

`start` prints where the program runs, and returns; the supervisor stays behind in a session of its
own. It ends everything of the program, and then removes its directory, on `stop`, when `lease` was
not touched for a while, or after the time limit when no request comes any more. What the
program started is found by MARK in its environment.
"""

import base64
import ctypes
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
VARIABLE = "RDMAPROV_ACCEPTANCE"
PROGRESS = struct.Struct("<QQQ")  # as agent/watch.py writes it
TICK_S = 0.2
PLACES = ("/run", "/dev/shm", "/tmp")  # in memory first: a full disk is no obstacle
STOP_REQUESTED = []  # type: ignore[var-annotated] # Python 3.6 has a comment, or nothing


def prctl(*arguments):
    """Set something of this process's."""
    ctypes.CDLL(None).prctl(*arguments)


def read(*parts):
    """Return a file's bytes, none if it cannot be read."""
    try:
        with open(os.path.join(*parts), "rb") as file:
            return file.read()
    except OSError:
        return b""


def write(directory, name, data):
    """Write a file, whole or not at all."""
    new = os.path.join(directory, name + ".new")
    with open(new, "wb") as file:
        file.write(data)
    os.rename(new, os.path.join(directory, name))


def find_processes(mark):
    """Return the processes with the mark in their environment or arguments, but this one."""
    found = []
    entry = (VARIABLE + "=" + mark).encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        if process_state(int(name)) in ("", "Z"):
            continue
        environment = read("/proc", name, "environ").split(b"\0")
        if entry in environment or mark.encode() in read("/proc", name, "cmdline").split(b"\0"):
            found.append(int(name))
    return found


def process_state(pid):
    """Return a process's state as in /proc, empty if there is none."""
    return read("/proc", str(pid), "stat").decode("ascii", "replace").rpartition(")")[2][1:2]


def end_all(mark):
    """Kill what the program started, until nothing is left or two seconds have passed."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        reap()
        left = find_processes(mark)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)


def reap():
    """Take the exit statuses of orphans that became ours."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        pass


def read_ranks(directory):
    """Return what each rank is at."""
    found = {}
    for name in os.listdir(directory):
        data = read(directory, name)
        if not name.startswith("progress.") or len(data) < PROGRESS.size:
            continue
        pid, entered, left = PROGRESS.unpack_from(data)
        text = data[PROGRESS.size :].rstrip(b"\0").decode("utf-8", "replace")
        entry = {"entered": entered, "left": left, "phase": text, "process": process_state(pid)}
        found[name[len("progress.") :]] = entry
    return found


def make_directory(request, mark):
    """Return a new directory with the request's files."""
    for place in PLACES:
        directory = os.path.join(place, mark)
        try:
            os.mkdir(directory, 0o700)
            break
        except OSError as error:
            last = error
    else:
        raise last
    for name, data in request["files"].items():
        write(directory, name, base64.b64decode(data))
    for name in ("lease", "out", "err"):
        write(directory, name, b"")
    return directory


def launch(request, directory, mark):
    """Start the program; it dies with the supervisor."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    environment = dict(os.environ, **request["environment"])
    environment[VARIABLE] = mark
    paths = [os.path.join(directory, name) for name in ("out", "err")]
    with open(paths[0], "ab") as out, open(paths[1], "ab") as err:
        return subprocess.Popen(
            [word.replace("{directory}", directory) for word in request["argv"]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=directory,
            env={key: text.replace("{directory}", directory) for key, text in environment.items()},
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )


def supervise(request, directory, mark):
    """Watch the program until its end, then wait to be dismissed; return when all is gone."""
    program, why, rc, written, last = None, "", None, 0.0, {}
    touched, asked = 0, time.monotonic()
    end = time.monotonic() + request["limit_s"]
    try:
        program = launch(request, directory, mark)
    except OSError as error:
        why, rc = "cannot start: {}".format(error), 127
    while True:
        if rc is None:
            rc = program.poll()
            if rc is None and time.monotonic() > end:
                why, rc = "timed out after {:g} s".format(request["limit_s"]), 124
            if rc is not None:
                last = read_ranks(directory)
                end_all(mark)
        now = time.monotonic()
        if rc is not None or now - written > 1:
            written = now
            entry = {"rc": rc, "why": why, "ranks": read_ranks(directory) if rc is None else last}
            write(directory, "status", json.dumps(entry).encode("ascii") + b"\n")
        # Seen to change, not read as a time: a clock that is set does not end the lease.
        latest = os.stat(os.path.join(directory, "lease")).st_mtime_ns
        if latest != touched:
            touched, asked = latest, now
        if STOP_REQUESTED or now - asked > request["lease_s"]:
            return
        time.sleep(TICK_S if rc is None else 1)


def start(request, mark):
    """Start the supervisor in a session of its own; say where, once the program runs."""
    directory, starter = make_directory(request, mark), os.getpid()
    if os.fork():
        print(json.dumps({"directory": directory}))
        return
    os.setsid()
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, flags), number)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: STOP_REQUESTED.append(True))
    # It has the mark too, and a program that ends at once must not take it along.
    while os.getppid() == starter:
        time.sleep(0.01)
    try:
        supervise(request, directory, mark)
    finally:
        end_all(mark)
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)


def stop(mark):
    """End a supervisor and everything of its program; print what is left."""
    for pid in find_processes(mark):
        if mark.encode() in read("/proc", str(pid), "cmdline").split(b"\0"):
            os.kill(pid, signal.SIGTERM)
    directories = [os.path.join(place, mark) for place in PLACES]
    end = time.monotonic() + 5
    while time.monotonic() < end and (find_processes(mark) or any(map(os.path.isdir, directories))):
        time.sleep(0.1)
    end_all(mark)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"left": find_processes(mark)}))


def main():
    """Do what the document on standard input asks for."""
    request = json.loads(sys.stdin.read())
    if request["verb"] == "start":
        start(request, sys.argv[1])
    else:
        stop(request["mark"])


main()
