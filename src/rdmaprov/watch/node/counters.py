#!/usr/bin/env python3
"""Answer what the rails of a node count, each time it is asked. Runs on the node; Python 3.6.

    python3 -I -S -c BOOT MARK   as probe/connection.py starts it, in place of the agent

Requests and answers are those of probe/agent.py. `open`, with {"rails": [...], "root": "/"} as its
input, answers with the names of all counters and what they are at; `read` with how much those grew
that changed since the answer before; `log` with what the kernel logged in the last seconds. It
reads only when it is asked, so nothing gathers where nobody listens. It writes no file, and ends
with its input, or IDLE_S after the last request.
"""

import json
import os
import re
import select
import sys
import time

from rdmaprov.node.counter_names import names_at
from rdmaprov.node.kept_counters import ETHTOOL
from rdmaprov.node.kernel_lines import kernel_lines
from rdmaprov.node.rail_counters import FAST, RailCounters

IDLE_S = 60  # the controller asks each second; ssh may not know that it is gone
# What a run of accept reads, and each counter by which a watch finds faults.
WATCHED = {
    place: names + tuple(each for each in names_at(place, "watch") if each not in names)
    for place, names in FAST.items()
}
# Bytes by priority as well.
MORE = "|".join(["", r"tx_prio\d_bytes", *names_at("ethtool", "watch")])
# Soft-RoCE counts its packets and not their bytes.
PACKETS = r"|tx_prio\d_packets"
BOOT = "proc/sys/kernel/random/boot_id"


class Watched:
    """The rails of a node, and what they counted last."""

    def __init__(self, request):
        root = request.get("root", "/")
        wanted = re.compile(ETHTOOL.pattern + MORE)
        packets = re.compile(wanted.pattern + PACKETS)
        self.rails = [
            RailCounters(each, number, WATCHED, {}, wanted, root, packets)
            for number, each in enumerate(request["rails"])
        ]
        self.names = []
        for rail in self.rails:
            self.names += [name for name, _ in rail.fast] + rail.ethtool_names()
        self.root, self.began = root, time.monotonic()
        self.last = self.counts()

    def counts(self):
        """Return what all counters are at, None for each that cannot be read."""
        found = []
        for rail in self.rails:
            found += [one.count() for _, one in rail.fast] + rail.ethtool_counts()
        return found

    def costs(self):
        """Return when this is, and the processor time of this process, in microseconds."""
        now = int(1e6 * (time.monotonic() - self.began))
        return {"us": now, "cpu_us": int(1e6 * time.process_time())}

    def opened(self):
        """Return what there is."""
        try:
            with open(os.path.join(self.root, BOOT)) as file:
                boot = file.read().strip()
        except OSError:
            boot = ""
        devices = [
            {"rdma": each.rdma, "netdev": each.netdev, "unfit": each.unfit} for each in self.rails
        ]
        return dict(self.costs(), boot=boot, names=self.names, counts=self.last, rails=devices)

    def read(self):
        """Return which counters changed, by how much, and which cannot be read.

        One that fell has a negative number: what that means is for the controller to say.
        """
        now, at, by, gone = self.counts(), [], [], []
        answer = self.costs()
        for place, (new, old) in enumerate(zip(now, self.last)):
            if new is None:
                gone.append(place)
                now[place] = old
            elif new != old:
                at.append(place)
                by.append(new - (old or 0))
        self.last = now
        return dict(answer, at=at, by=by, gone=gone)

    def close(self):
        """Close all files."""
        for rail in self.rails:
            rail.close()


def requests():
    """Yield the number, the command and the input of each request, until there are no more."""
    received = b""
    while select.select([0], [], [], IDLE_S)[0]:
        data = os.read(0, 1 << 16)
        if not data:
            return
        received += data
        while True:
            head, found, rest = received.partition(b"\n")
            if not found:
                break
            number, _, *lengths = head.split()
            command, given = map(int, lengths)
            if len(rest) < command + given:
                break
            yield number.decode("ascii"), rest[:command], rest[command : command + given]
            received = rest[command + given :]


def answer(number, document):
    """Write an answer."""
    out = json.dumps(document, separators=(",", ":")).encode("ascii")
    data = "{} 0 {} 0\n".format(number, len(out)).encode("ascii") + out
    while data:
        data = data[os.write(1, data) :]


def main(mark):
    """Answer until nobody asks any more."""
    os.write(1, b"\n" + mark.encode("ascii") + b"\n")
    watched = None
    for number, command, given in requests():
        if command == b"open":
            if watched:
                watched.close()
            watched = Watched(json.loads(given.decode("utf-8")))
            answer(number, watched.opened())
        elif command == b"log":
            answer(number, kernel_lines(**json.loads(given.decode("utf-8"))))
        else:
            answer(number, watched.read())


main(sys.argv[1])
