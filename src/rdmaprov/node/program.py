"""A program on a node, as a child of its keeper or as a unit of systemd's."""

import os
import resource
import signal
import subprocess
import sys
import time

from rdmaprov.node import unit
from rdmaprov.node.hunt import VARIABLE, end_all, follow_parent, read_bytes

KEEPER, REQUEST = "keeper.py", "request.json"  # of a supervisor that is a unit


def write(directory, name, data):
    """Write a file, whole or not at all."""
    new = os.path.join(directory, name + ".new")
    with open(new, "wb") as file:
        file.write(data)
    os.rename(new, os.path.join(directory, name))


def command_of(request, directory, mark):
    """Return the program's words and its environment."""
    environment = dict(request.get("inherited", os.environ), **request["environment"])
    environment[VARIABLE] = mark
    return (
        [word.replace("{directory}", directory) for word in request["argv"]],
        {key: text.replace("{directory}", directory) for key, text in environment.items()},
    )


class Child:
    """The program as a child of its keeper, and what is found of it by its mark."""

    def __init__(self, request, directory, mark):
        self.mark, self.limit_s = mark, request["limit_s"]
        self.end_at = time.monotonic() + self.limit_s
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        argv, environment = command_of(request, directory, mark)
        paths = [os.path.join(directory, name) for name in ("out", "err")]
        with open(paths[0], "ab") as out, open(paths[1], "ab") as err:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=directory,
                env=environment,
                preexec_fn=follow_parent,
            )

    def poll(self):
        """Return its exit status, None while it runs, and why it ended if that is known."""
        rc = self.process.poll()
        if rc is None and time.monotonic() > self.end_at:
            return 124, "timed out after {:g} s".format(self.limit_s)
        return rc, ""

    @staticmethod
    def end_all(mark):
        """End the processes that are left of a program, by their mark."""
        end_all(mark)


class Unit:
    """The program as a unit of systemd's."""

    def __init__(self, request, directory, mark):
        self.name, keeper = unit_names(mark)
        self.directory, self.limit_s = directory, request["limit_s"]
        options = unit.rank_options(keeper, self.limit_s)
        words = [sys.executable, "-I", os.path.join(directory, KEEPER), "become", mark]
        why = unit.start(self.name, "Ranks of rdmaprov accept", options, words)
        if why:
            raise OSError(why)
        self.pid = int(unit.state(self.name).get("MainPID") or 0)
        self.born = birth(self.pid)

    def poll(self):
        """Return its exit status, None while it runs, and why it ended if that is known.

        systemd is asked only when the process is gone: that takes a moment of a rank's processor.
        """
        if self.born and birth(self.pid) == self.born:
            return None, ""
        seen = unit.state(self.name)
        if not unit.is_over(seen):
            return None, ""
        rc, why = unit.outcome(seen, self.limit_s)
        return rc, why or read_bytes(self.directory, "why").decode("utf-8", "replace")

    @staticmethod
    def end_all(mark):
        """End the unit of a program, with all of its processes."""
        unit.stop(unit_names(mark)[0])


def unit_names(mark):
    """Return the names of the units of a run's ranks and of their keeper."""
    return mark + ".service", mark + "-keeper.service"


def birth(pid):
    """Return when a process started, by the kernel's clock; nothing if there is none."""
    fields = read_bytes("/proc", str(pid), "stat").rpartition(b")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != b"Z" else b""


def become(request, directory, mark):
    """Turn into the program; this process is its unit's."""
    argv, environment = command_of(request, directory, mark)
    for number, name in enumerate((os.devnull, "out", "err")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND
        os.dup2(os.open(os.path.join(directory, name), flags), number)
    for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(each, signal.SIG_DFL)
    os.chdir(directory)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        write(directory, "why", "cannot start: {}".format(error).encode("utf-8", "replace"))
        os._exit(127)
