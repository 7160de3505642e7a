"""Slurm's HealthCheckProgram: report this node's certificate, and drain it if a part was replaced.

An acceptance left this program. Needs Python 3.6 and root. The exit codes are those of the program
`certificate` beside it. Only code 1, what is known to be wrong with this node, drains it, and:

- a node that is out of service already is left alone, whoever took it out;
- it waits 0 to 30 s, by the node's name, so that nodes of a fleet do not act at once;
- where as many nodes as `drains` in certificate.json carry its reason already, it only reports.

On a node that applies bundles by itself it says what that proved, too, which drains nothing.

It writes /var/lib/rdmaprov/health.prom for node_exporter's textfile collector. Tests pass the
directory in which they have /sys, /proc and the files.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time

from rdmaprov.node import bundle
from rdmaprov.node.standing import (
    DUE,
    FILE,
    INVALID,
    UNKNOWN,
    VALID,
    check_node,
    clean_line,
    read_left,
    seconds_of,
    share_of_time,
)

# `sinfo -R` shows 20 characters of a reason [sinfo(1)]; rdmaprov knows the first word as its own.
REASON = "rdmaprov: health:"
MOST_REASON = 200
METRICS = "var/lib/rdmaprov/health.prom"
WAIT_S = 30
# Slurm ends a HealthCheckProgram after 60 s [slurm.conf(5)]: the wait and three questions fit.
LIMIT_S = 8
DRAINS = 2
NOT_OF_BUNDLE = ("refused", "not_applied", "boot")  # a state that says nothing of it, or of now
PATHS = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin:/opt/slurm/bin"


class NoSlurm(Exception):
    """Why Slurm cannot be asked."""


def slurm(*words):
    """Return what one of Slurm's commands prints."""
    paths = os.environ.get("PATH", "") + ":" + PATHS
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            env=dict(os.environ, PATH=paths, LC_ALL="C"),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSlurm("{}: {}".format(words[0], error)) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise NoSlurm("{}: {}".format(words[0], said[-1]))
    return done.stdout.decode("utf-8", "replace")


def reason_of(node):
    """Return why a node is out of service, or is to be; empty for no reason.

    From 23.02 Slurm keeps the reason of a node that was resumed: nobody's any more.
    """
    said = slurm("scontrol", "-o", "show", "node", node)
    state = re.search(r"\bState=(\S+)", said)
    if state is None:
        raise NoSlurm("scontrol: it does not say the state of {}".format(node))
    if not re.search("DRAIN|DOWN|FAIL", state.group(1)):
        return ""
    reason = re.search(r"\bReason=(.*?)(?: \[\S+@\S+\])?\s*(?: Comment=.*)?$", said)
    if reason is not None and reason.group(1) not in ("", "(null)"):
        return reason.group(1)
    return state.group(1)


def drained():
    """Return the nodes that carry this program's reason."""
    lines = slurm("sinfo", "-h", "-R", "-N", "-o", "%N %E").splitlines()
    pairs = [line.split(None, 1) for line in lines]
    return {pair[0] for pair in pairs if len(pair) == 2 and pair[1].startswith(REASON)}


def most_drained(root):
    """Return how many nodes may carry it, as the acceptance left it."""
    try:
        with open(os.path.join(root, FILE), "rb") as file:
            number = json.loads(file.read().decode()).get("drains", DRAINS)
    except (OSError, ValueError, AttributeError):
        return DRAINS
    return number if isinstance(number, int) and 0 <= number <= 100 else DRAINS


def pause_s(node):
    """Return for how many seconds a node waits, 0 to 30, always the same."""
    digits = hashlib.sha256(node.encode()).hexdigest()[:8]
    return WAIT_S * int(digits, 16) / 0xFFFFFFFF


def act(node, line, most):
    """Drain a node if that may be; return what was done, on one line."""
    was = reason_of(node)
    if was:
        return "left alone: {}".format(was)
    time.sleep(pause_s(node))
    others = drained()
    if len(others) >= most:
        return "not drained: {} others are already".format(len(others))
    was = reason_of(node)  # somebody may have written one meanwhile
    if was:
        return "left alone: {}".format(was)
    reason = clean_line("{} {}".format(REASON, line)).replace('"', "'")[:MOST_REASON]
    slurm("scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason)
    return "drained"


def pulled(root):
    """Return the exit code, a line and metrics of a node that applies bundles by itself.

    What no run proved of this boot and the bundle that is there is never `proven`.
    """
    root = root.rstrip("/")
    if not any(os.path.lexists(root + each) for each in (bundle.STATE, bundle.BUNDLE)):
        return VALID, "", ""
    state, verdict = {}, "unknown"
    try:
        state = bundle.read_state(root)
        code, kind, line = bundle.judge(state, bundle.BUNDLE, root)
        if kind not in NOT_OF_BUNDLE:
            verdict = state["verdict"]
    except Exception as error:
        code, kind, line = UNKNOWN, "unreadable", "unknown: {}".format(error)
    states = ["proven", "failed", "pending", "unknown"]
    rows = [("state", '{{state="{}"}}'.format(each), int(each == verdict)) for each in states]
    rows += [("reason", '{{kind="{}"}}'.format(re.sub("[^a-z_]", "?", str(kind))), 1)] * bool(kind)
    ended = state.get("ended", state.get("began"))
    if isinstance(ended, (int, float)):
        rows.append(("timestamp_seconds", "", ended))
        line += "; {:.1f} h old".format((time.time() - ended) / 3600)
    return code, "pull: " + line, gauges([("pull_" + name, *more) for name, *more in rows])


def gauges(rows):
    """Return metrics as text: a name, its labels and a value each; those of a name are together."""
    lines = []
    for name, labels, value in rows:
        kind = "# TYPE rdmaprov_{} gauge\n".format(name)
        lines += [kind] * (kind not in lines)
        lines.append("rdmaprov_{}{} {}\n".format(name, labels, value))
    return "".join(lines)


def metrics(code, root):
    """Return the text for node_exporter."""
    signed = read_left(root)[0] or {}
    numbers = {"certificate_code": code, "certificate_valid": int(code == VALID)}
    try:
        numbers["certificate_expires_seconds"] = seconds_of(signed["valid_until"])
        numbers["certificate_due"] = int(share_of_time(signed, time.time()) >= DUE)
    except (KeyError, TypeError, ValueError):
        pass  # a node without a certificate has no date
    return gauges([(name, "", value) for name, value in numbers.items()])


def write_metrics(text, root):
    """Write the file whole or not at all."""
    path = os.path.join(root, METRICS)
    new = "{}.{}.new".format(path, os.getpid())
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.rename(new, path)


def main(root="/"):
    """Check, report, and drain the node if it must be."""
    code, line = check_node(root)
    print(line)
    pull_code, pull_line, pull_metrics = pulled(root)
    if pull_line:
        print(clean_line(pull_line))
    try:
        write_metrics(metrics(code, root) + pull_metrics, root)
    except OSError as error:
        print(clean_line("no metrics: {}".format(error)))
    if code == INVALID:
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
        try:
            print(clean_line(act(node, line, most_drained(root))))
        except NoSlurm as error:
            print(clean_line("not drained: {}".format(error)))
    return code or pull_code


if __name__ == "__main__":
    try:
        CODE = main(*sys.argv[1:2])
    except Exception as error:
        print(clean_line("unknown: the check failed: {}: {}".format(type(error).__name__, error)))
        CODE = UNKNOWN
    sys.exit(CODE)
