"""Programs in transient units, where systemd is the node's init system.

systemd ends a unit's processes all at once, whatever they became, at its time limit, at its memory
limit, and when the unit ends that it is bound to. No value of a request is on the command line
of a unit, so nothing there needs systemd's escapes of `%` and `$`.
"""

import os
import re
import shutil
import subprocess
import sys

RUNNING = "/run/systemd/system"  # sd_booted(3)
# RHEL 8's; what it lacks of the properties below is left out there.
OLDEST, OOM_POLICY = 239, 243
# Of the memory that is free at the start. Ranks that take more are ended; the node's own services
# keep the rest, and the kernel has no reason to choose one of them. The share is our choice.
MEMORY_SHARE = 0.9
STOP_S = 5  # for a supervisor that waits for systemd, and for processes that hang in the kernel
LIMIT_S = 30
# A unit requires sysinit.target unless it says otherwise, and so would start what that holds on a
# node that has not booted so far, or not in this way: an acceptance starts nothing but its own.
ALONE = ("DefaultDependencies=no", "Conflicts=shutdown.target", "Before=shutdown.target")
PLAIN = re.compile(r"[\w./-]+")
SHOWN = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
    "MainPID",
    "ControlGroup",
)
HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
EXITED = "1"  # CLD_EXITED of waitid(2)


def run(*argv):
    """Return a command's exit status and what it wrote to both of its streams."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def version():
    """Return systemd's version, 0 if it is not known."""
    found = re.match(r"systemd (\d+)", run("systemctl", "--version")[1])
    return int(found.group(1)) if found else 0


def is_available():
    """Return whether programs can be units here: systemd runs, and this is root.

    A unit would leave the step of a Slurm job, with its devices, its limits and its end.
    """
    if "SLURM_JOB_ID" in os.environ:
        return False
    there = os.path.isdir(RUNNING) and os.geteuid() == 0 and shutil.which("systemd-run")
    return bool(there and PLAIN.fullmatch(sys.executable)) and version() >= OLDEST


def memory_limit():
    """Return the bytes that ranks may use together, 0 if the free memory is not known."""
    try:
        with open("/proc/meminfo") as file:
            found = re.search(r"MemAvailable:\s*(\d+) kB", file.read())
    except OSError:
        found = None
    return int(int(found.group(1)) * 1024 * MEMORY_SHARE) if found else 0


def start(name, description, options, words):
    """Start words as a unit; return why that failed, nothing if it did not."""
    command = ["systemd-run", "--quiet", "--unit=" + name, "--description=" + description]
    rc, text = run(*command + options + ["--"] + words)
    return "" if rc == 0 else "systemd-run: " + (text.strip() or "exit status {}".format(rc))


def keeper_options():
    """Return the options of the unit of a supervisor: the last to go when memory is short."""
    stop_s = "TimeoutStopSec={}".format(STOP_S)
    properties = [*ALONE, "KillMode=mixed", stop_s, "OOMScoreAdjust=-900"]
    return ["--collect"] + ["--property=" + each for each in properties]


def rank_options(keeper, limit_s):
    """Return the options of the unit of ranks, which ends with its keeper's.

    It stays when its program has ended well, so that its result can be read.
    """
    memory = memory_limit()
    properties = [
        *ALONE,
        "BindsTo=" + keeper,
        "After=" + keeper,
        "RemainAfterExit=yes",
        "KillSignal=SIGKILL",
        "TimeoutStopSec={}".format(STOP_S),
        "RuntimeMaxSec={}".format(max(1, round(limit_s))),
        "TasksMax=infinity",
        "LimitNOFILE=infinity",
        "LimitMEMLOCK=infinity",
    ]
    properties += ["MemoryMax={}".format(memory)] if memory else []
    properties += ["OOMPolicy=kill"] if version() >= OOM_POLICY else []
    return ["--property=" + each for each in properties]


def state(name):
    """Return what systemd says of a unit; nothing if it says nothing."""
    rc, text = run("systemctl", "show", name, *["--property=" + each for each in SHOWN])
    lines = text.splitlines() if rc == 0 else []
    return dict(line.partition("=")[::2] for line in lines)


def is_over(seen):
    """Return whether a unit's program has ended; not if systemd did not answer."""
    ended = seen.get("ActiveState") in ("inactive", "failed") or seen.get("SubState") == "exited"
    return bool(seen) and ended


def outcome(seen, limit_s):
    """Return the exit status of a unit's program, and why it ended if it did not by itself."""
    if seen.get("LoadState") != "loaded":
        return 1, "its unit is gone: something on the node ended it"
    result, status = seen["Result"], int(seen.get("ExecMainStatus") or 0)
    if result == "timeout":
        return 124, "timed out after {:g} s".format(limit_s)
    if result == "oom-kill":
        return -9, "killed by the kernel: out of memory"
    if seen.get("ExecMainCode") == EXITED and result in ("success", "exit-code"):
        return status, ""
    if result in ("signal", "core-dump", "success"):
        return -status or 1, "killed by signal {}".format(status)
    return 1, "systemd ended it: {}".format(result)


def stop(*names):
    """End units, their processes first, and have systemd forget how they ended."""
    run("systemctl", "stop", *names)
    run("systemctl", "reset-failed", *names)


def processes(seen):
    """Return the processes that are in a unit's control group."""
    group = seen.get("ControlGroup", "")
    found = set()
    for place in HIERARCHIES if group.strip("/") else ():
        try:
            with open(place + group + "/cgroup.procs") as file:
                found.update(map(int, file.read().split()))
        except OSError:
            pass
    return sorted(found)
