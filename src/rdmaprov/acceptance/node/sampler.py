#!/usr/bin/env python3
"""Read the counters of a node's rails again and again while ranks run. Needs Python 3.6.

    python3 -I sampler.py DIRECTORY REQUEST

REQUEST is JSON: `rails`, each with `netdev` and `pci` as the site has them, and `every_s`. It ends
when DIRECTORY has a file `samples.stop`, on SIGTERM, when whoever started it is gone, or after
`limit_s`. It then writes DIRECTORY/samples.gz, whole or not at all; see `pack`.
"""

import array
import gzip
import io
import json
import os
import signal
import sys
import time

from rdmaprov.node.rail_counters import FAST, SLOW, RailCounters

SLOW_S = 1.0
MOST_ROWS = 4608  # half an hour at 0.4 s
MOST_PACKED = 256 << 10
MOST_COUNT = (1 << 64) - 1


class CounterTable:
    """How much counters grew from row to row; a full table keeps every second row.

    `rows[0]` are microseconds. A row that goes is added to the next, so no count is lost.
    """

    def __init__(self, every_s, columns):
        self.every_s, self.names = every_s, columns
        self.rows = [array.array("Q") for _ in range(len(columns) + 1)]
        self.last, self.at = None, 0

    def add(self, at_us, counts):
        """Add a row; the first is what all others are compared with."""
        if self.last is not None:
            self.rows[0].append(at_us - self.at)
            for column, new, old in zip(self.rows[1:], counts, self.last):
                # A counter that fell was set back, and one that cannot be read did not grow.
                grown = 0 if new is None or old is None else new - old
                column.append(min(max(grown, 0), MOST_COUNT))
            counts = [old if new is None else new for new, old in zip(counts, self.last)]
        self.last, self.at = counts, at_us
        if len(self.rows[0]) >= MOST_ROWS:
            self.halve()

    def halve(self):
        """Add rows two by two; ticks come half as often from now on."""
        self.every_s *= 2
        for number, column in enumerate(self.rows):
            odd = column[-1:] if len(column) % 2 else column[:0]
            pairs = (min(a + b, MOST_COUNT) for a, b in zip(column[::2], column[1::2]))
            self.rows[number] = array.array("Q", pairs) + odd


class Sampler:
    """All rails of a node."""

    def __init__(self, request):
        self.rails = [
            RailCounters(each, number, FAST, SLOW) for number, each in enumerate(request["rails"])
        ]
        self.fast = [pair for rail in self.rails for pair in rail.fast]
        self.slow = [pair for rail in self.rails for pair in rail.slow]
        slow = [name for name, _ in self.slow]
        for rail in self.rails:
            slow += rail.ethtool_names()
        self.began = self.now = time.monotonic()
        self.wall, self.cpu = time.time(), time.process_time()
        self.longest_us = 0
        self.tables = [
            CounterTable(request["every_s"], [name for name, _ in self.fast]),
            CounterTable(max(SLOW_S, request["every_s"]), slow),
        ]
        self.due = [self.began, self.began]

    def microseconds(self):
        """Return the time since the start."""
        return int(1e6 * (time.monotonic() - self.began))

    def tick(self):
        """Read what is due; return the seconds until the next."""
        began = time.monotonic()
        if began >= self.due[0]:
            self.tables[0].add(self.microseconds(), [one.count() for _, one in self.fast])
        if began >= self.due[1]:
            counts = [one.count() for _, one in self.slow]
            counts += [count for rail in self.rails for count in rail.ethtool_counts()]
            self.tables[1].add(self.microseconds(), counts)
        now = time.monotonic()
        self.longest_us = max(self.longest_us, int(1e6 * (now - began)))
        for number, table in enumerate(self.tables):
            if now >= self.due[number]:
                missed = (now - self.due[number]) // table.every_s
                self.due[number] += (missed + 1) * table.every_s
        return max(0.0, min(self.due) - now)

    def pack(self):
        """Return all as bytes: gzip of a line of JSON and the columns that grew, one by one.

        Columns are unsigned numbers of 8 bytes, the lowest byte first: microseconds, then those
        that `columns` names. What `still` names was read and never grew.
        """
        head = {
            "wall": [self.wall, time.time()],
            "lasted_us": self.microseconds(),
            "longest_us": self.longest_us,
            "cpu_s": time.process_time() - self.cpu,
            "tables": [],
        }
        data = []
        for table in self.tables:
            grown = [i for i, column in enumerate(table.rows[1:], 1) if any(column)]
            columns = [table.names[i - 1] for i in grown]
            head["tables"].append(
                {
                    "every_s": table.every_s,
                    "rows": len(table.rows[0]),
                    "columns": columns,
                    "still": sorted(set(table.names) - set(columns)),
                }
            )
            for i in [0, *grown]:
                column = array.array("Q", table.rows[i])
                if sys.byteorder == "big":
                    column.byteswap()
                data.append(column.tobytes())
        return gzip_of(json.dumps(head).encode("ascii") + b"\n" + b"".join(data))


def gzip_of(data):
    """Return data compressed."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as file:
        file.write(data)
    return packed.getvalue()


def write(directory, sampler):
    """Write the result, whole or not at all, and not larger than allowed."""
    data = sampler.pack()
    while len(data) > MOST_PACKED:
        for table in sampler.tables:
            table.halve()
        data = sampler.pack()
    path = os.path.join(directory, "samples.gz")
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


def main():
    """Sample until the end."""
    directory, request = sys.argv[1], json.loads(sys.argv[2])
    parent, ended = os.getppid(), []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    sampler = Sampler(request)
    stop = os.path.join(directory, "samples.stop")
    while not ended and not os.path.exists(stop) and os.getppid() == parent:
        if time.monotonic() - sampler.began > request["limit_s"]:
            break
        time.sleep(sampler.tick())
    if os.path.isdir(directory):
        write(directory, sampler)


main()
