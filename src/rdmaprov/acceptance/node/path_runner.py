#!/usr/bin/env python3
"""Run perftests on a node, step by step as the controller says. Needs Python 3.6.

    python3 -I path_runner.py   as a program of supervisor.py's, in its directory

It waits for `step.N.json`, N from 0 on, and answers with `done.N.json`. A step starts servers and
is done when each of them listens or never will (`serve`), runs clients to their ends (`run`), or
ends the servers (`end`). Its supervisor ends it with everything that it started, at the time limit
or when the controller is gone. The kernel ends what it started when it ends.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time

from rdmaprov.node.hunt import follow_parent, read_bytes
from rdmaprov.node.listening import who_listens

TICK_S = 0.05
NUMA = "/sys/devices/system/node"
# Of what a perftest says: the beginning, where it refuses an option and prints its whole help, and
# the end, where its numbers are.
HEAD_BYTES, TAIL_BYTES = 1024, 3072
PORT_TRIES = 3
# A server ends by itself when its client does; this is for one that never had a client.
END_S = 2


def free_port(taken):
    """Return a TCP port that is free now and was not given away before."""
    while True:
        with socket.socket() as each:
            each.bind(("", 0))
            port = each.getsockname()[1]
        if port not in taken:
            taken.add(port)
            return port


def processors(number):
    """Return the processors of a NUMA node; none if there is no such node."""
    text = read_bytes(NUMA, "node{}".format(number), "cpulist").decode("ascii", "replace").strip()
    found = set()
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


class Program:
    """One perftest: its process, what it said, and how it ended."""

    def __init__(self, wanted, taken):
        self.wanted, self.taken = wanted, taken
        self.process = None
        self.rc, self.why, self.listens = None, "", False
        self.said = bytearray()
        self.tries = 0
        self.start()

    def start(self):
        """Start it, bound to a NUMA node if that is asked for."""
        self.tries += 1
        self.port = self.wanted["port"] or free_port(self.taken)
        self.said = bytearray()
        self.end_at = time.monotonic() + self.wanted["limit_s"]
        words = [word.replace("{port}", str(self.port)) for word in self.wanted["argv"]]
        number, own = self.wanted["numa"], set()
        if number >= 0:
            own = processors(number)
            if not own:
                self.rc, self.why = 1, "no NUMA node {}".format(number)
                return
            if shutil.which("numactl"):
                node = str(number)
                words = ["numactl", "--membind=" + node, "--cpunodebind=" + node, *words]
                own = set()
        self._start(words, own)

    def _start(self, words, own):
        def prepare():
            follow_parent()
            if own:  # memory follows: the kernel takes it where it is touched first
                os.sched_setaffinity(0, own)

        if not shutil.which(self.wanted["argv"][0]):
            self.rc, self.why = 127, "missing"
            return
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.rc, self.why = 126, "cannot start: {}".format(error)
            return
        os.set_blocking(self.process.stdout.fileno(), False)

    def look(self):
        """Read what it said; take in whether it ended, and end it at its limit."""
        if self.process is None or self.rc is not None:
            return
        self._read()
        rc = self.process.poll()
        if rc is None and time.monotonic() > self.end_at:
            self.kill("timeout")
        elif rc is not None:
            self._read()
            self.rc = rc
            self.process.stdout.close()

    def _read(self):
        while True:
            try:
                data = os.read(self.process.stdout.fileno(), 65536)
            except OSError:
                return
            if not data:
                return
            self.said += data
            if len(self.said) > HEAD_BYTES + TAIL_BYTES:
                del self.said[HEAD_BYTES:-TAIL_BYTES]

    def kill(self, why):
        """End it, and whatever it started."""
        if self.process is None or self.rc is not None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        try:
            self.rc = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.rc = -9  # it hangs in the kernel; its supervisor names it in the end
        self._read()
        self.why = why
        self.process.stdout.close()

    def as_data(self):
        """Return it as the controller reads it."""
        return {
            "id": self.wanted["id"],
            "port": self.port if self.listens else 0,
            "rc": self.rc,
            "why": self.why,
            "out": self.said.decode("ascii", "replace"),
        }


class Runner:
    """The perftests of a node."""

    def __init__(self):
        self.servers = []
        self.taken = set()

    def take(self, step):
        """Do a step; return what came of it."""
        if "serve" in step:
            self.servers = [Program(each, self.taken) for each in step["serve"]]
            self._wait_for_listeners(time.monotonic() + step["limit_s"])
            return self.servers
        if "run" in step:
            clients = [Program(each, self.taken) for each in step["run"]]
            while any(each.rc is None for each in clients):
                self._look(clients)
            return clients
        end = time.monotonic() + END_S
        while any(each.rc is None for each in self.servers) and time.monotonic() < end:
            self._look([])
        for each in self.servers:
            each.kill("ended")
        ended, self.servers = self.servers, []
        return ended

    def _wait_for_listeners(self, end):
        while True:
            waiting = [each for each in self.servers if each.rc is None and not each.listens]
            if not waiting:
                return
            self._look([])
            pairs = [(each.process.pid, each.port) for each in waiting if each.rc is None]
            there = who_listens(pairs) if pairs else set()
            for each in waiting:
                each.listens = each.rc is None and each.process.pid in there
                self._try_another_port(each)
                if not each.listens and time.monotonic() > end:
                    each.kill("silent")

    def _try_another_port(self, each):
        """Start a server again whose port, which was free, was taken by somebody else."""
        chosen = not each.wanted["port"] and each.tries < PORT_TRIES
        if each.rc and chosen and b"Couldn't listen to port" in each.said:
            each.rc, each.process = None, None
            each.start()

    def _look(self, others):
        """Look at all programs, after a moment."""
        time.sleep(TICK_S)
        for each in self.servers + others:
            each.look()

    def run(self):
        """Take steps for ever; the supervisor ends this."""
        number = 0
        while True:
            name = "step.{}.json".format(number)
            if not os.path.exists(name):
                self._look([])
                continue
            with open(name) as file:
                step = json.load(file)
            done = [each.as_data() for each in self.take(step)]
            with open("done.new", "w") as file:
                json.dump(done, file)
            os.rename("done.new", "done.{}.json".format(number))
            number += 1


Runner().run()
