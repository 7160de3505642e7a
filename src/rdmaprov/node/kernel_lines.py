"""The kernel's log, as a program on a node reads it. Part of such programs: Python 3.6."""

import re

from rdmaprov.node.devices import read
from rdmaprov.node.gpus import run_command

JOURNAL = ["journalctl", "-k", "-b", "-o", "short-monotonic", "--no-hostname", "--no-pager", "-q"]


def kernel_lines(seconds, matters, most):
    """Return what matters of what the kernel logged in the last seconds, and what is lacking.

    Its stamps are seconds since the boot. Of more lines than `most`, those in the middle are left.
    """
    began = float((read("/proc/uptime") or "0").split()[0]) - seconds
    why = ""
    for argv in (JOURNAL, ["dmesg"]):
        text, code, why = run_command(argv)
        if not code and text.strip():
            break
    else:
        return {"log": [], "lacks": why or "the kernel's log is empty"}
    lines = []
    for line in text.split("\n"):
        stamp = re.match(r"\[ *(\d+\.\d+)\]", line)
        if stamp and float(stamp.group(1)) >= began and re.search(matters, line):
            lines.append(line[:1000].encode("utf-8", "replace").decode())
    if len(lines) <= most:
        return {"log": lines, "lacks": ""}
    lacks = "{:,} lines in its middle were not read".format(len(lines) - most)
    return {"log": lines[: most // 2] + lines[-most // 2 :], "lacks": lacks}
