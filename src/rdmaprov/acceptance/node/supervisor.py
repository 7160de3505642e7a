#!/usr/bin/env python3
"""Start a program on a node and see to its end, whatever happens. Needs Python 3.6.

    python3 -c LOADER MARK   with its source and then one JSON document on standard input

`start` prints where the program runs, and returns; a supervisor stays behind. It ends everything of
the program, and then removes its directory, on `stop`, when `lease` was not touched for a while, or
after the time limit when no request comes any more.

Where systemd runs, program and supervisor are units, MARK and MARK-keeper: systemd has the time
limit and the memory limit, and ends all processes; the supervisor has the lease. Elsewhere, as in
containers, and for users other than root, the supervisor does all of it, and finds what the program
started by MARK in its environment.
"""

import base64
import json
import os
import shutil
import signal
import struct
import sys
import time

from rdmaprov.node import unit
from rdmaprov.node.hunt import adopt_orphans, end_all, find_processes, process_state, read_bytes
from rdmaprov.node.program import KEEPER, REQUEST, Child, Unit, become, unit_names, write
from rdmaprov.node.sampling import start_sampler

PROGRESS = struct.Struct("<QQQQ")  # as agent/progress.py writes it
TICK_S = 0.2
PLACES = ("/run", "/dev/shm", "/tmp")  # in memory first: a full disk is no obstacle
STOP_REQUESTED = []  # type: ignore[var-annotated] # Python 3.6 has a comment, or nothing


def read_ranks(directory):
    """Return what each rank is at."""
    found = {}
    for name in os.listdir(directory):
        data = read_bytes(directory, name)
        if not name.startswith("progress.") or len(data) < PROGRESS.size:
            continue
        pid, number, entered, left = PROGRESS.unpack_from(data)
        text = data[PROGRESS.size :].rstrip(b"\0").decode("utf-8", "replace")
        found[name[len("progress.") :]] = {
            "communicator": number,
            "entered": entered,
            "left": left,
            "phase": text,
            "process": process_state(pid),
        }
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


def supervise(request, directory, mark, kind):
    """Watch the program until its end, then wait to be dismissed; return when all is gone."""
    why, rc, written, last = "", None, 0.0, {}
    lease = os.path.join(directory, "lease")
    # Nobody asks before all nodes have started.
    touched = os.stat(lease).st_mtime_ns
    asked = time.monotonic() + request.get("starting_s", 0)
    start_sampler(request, directory)
    try:
        program = kind(request, directory, mark)
    except OSError as error:
        why, rc = "cannot start: {}".format(error), 127
    while True:
        if rc is None:
            rc, why = program.poll()
            # What ends a unit has ended its ranks: then what they were at is what was read before.
            last = read_ranks(directory) if rc is None or kind is Child else last
            if rc is not None:
                kind.end_all(mark)
        now = time.monotonic()
        if rc is not None or now - written > 1:
            written = now
            entry = {"rc": rc, "why": why, "ranks": last}
            write(directory, "status", json.dumps(entry).encode("ascii") + b"\n")
        # Seen to change, not read as a time: a clock that is set does not end the lease.
        latest = os.stat(lease).st_mtime_ns
        if latest != touched:
            touched, asked = latest, now
        if STOP_REQUESTED or now - asked > request["lease_s"]:
            return
        time.sleep(TICK_S if rc is None else 1)


def keep(request, directory, mark, kind):
    """Supervise the program to its end; leave nothing of it, and end."""
    signal.signal(signal.SIGTERM, lambda *_: STOP_REQUESTED.append(True))
    try:
        supervise(request, directory, mark, kind)
    finally:
        kind.end_all(mark)
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(0)


def start(request, mark):
    """Start the supervisor; say where, once it runs."""
    directory = make_directory(request, mark)
    if unit.is_available() and start_unit(request, directory, mark):
        print(json.dumps({"directory": directory}))
    else:
        start_session(request, directory, mark)


def start_unit(request, directory, mark):
    """Return whether the supervisor runs as a unit: with this source, and what it is asked for."""
    kept = {name: value for name, value in request.items() if name != "files"}
    kept["inherited"] = dict(os.environ)
    write(directory, KEEPER, source)  # noqa: F821 - the loader's, which runs it
    write(directory, REQUEST, json.dumps(kept).encode("ascii"))
    words = [sys.executable, "-I", os.path.join(directory, KEEPER), "keep", mark]
    name, what = unit_names(mark)[1], "Supervisor of the ranks of rdmaprov accept"
    return not unit.start(name, what, unit.keeper_options(), words)


def start_session(request, directory, mark):
    """Start the supervisor in a session of its own."""
    starter = os.getpid()
    if os.fork():
        print(json.dumps({"directory": directory}))
        return
    os.setsid()
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, flags), number)
    adopt_orphans()
    # It has the mark too, and a program that ends at once must not take it along.
    while os.getppid() == starter:
        time.sleep(0.01)
    keep(request, directory, mark, Child)


def stop(mark):
    """End a supervisor and everything of its program; print what is left."""
    directories = [os.path.join(place, mark) for place in PLACES]
    names = unit_names(mark)
    seen = {name: unit.state(name) for name in names} if unit.is_available() else {}
    if any(each.get("LoadState") == "loaded" for each in seen.values()):
        unit.stop(*reversed(names))
        left = unit.processes(seen[names[0]])
    else:
        left = hunt(mark, directories)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"left": left}))


def hunt(mark, directories):
    """Return the processes that are left after all with the mark were ended."""
    for pid in find_processes(mark):
        if mark.encode() in read_bytes("/proc", str(pid), "cmdline").split(b"\0"):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 5
    while time.monotonic() < end and (find_processes(mark) or any(map(os.path.isdir, directories))):
        time.sleep(0.1)
    end_all(mark)
    return find_processes(mark)


def main():
    """Do what the arguments of a unit, or the document on standard input, ask for."""
    if len(sys.argv) == 3:
        verb, mark, directory = sys.argv[1], sys.argv[2], os.path.dirname(sys.argv[0])
        request = json.loads(read_bytes(directory, REQUEST).decode("ascii"))
        if verb == "keep":
            keep(request, directory, mark, Unit)
        become(request, directory, mark)
    request = json.loads(sys.stdin.read())
    if request["verb"] == "start":
        start(request, sys.argv[1])
    else:
        stop(request["mark"])


main()
