#!/usr/bin/env python3
"""ansible-runner's worker, with all its files in memory. Runs on a relay; needs Python 3.6.

    python3 -I -S -c SOURCE

The first line of its output says what is there, as JSON; what ansible-runner writes follows. Its
input is a line with a number of bytes, then those: a job as `ansible-runner transmit` writes it.
When the input ends, or at a signal, Ansible is interrupted, then killed; at a second signal at
once. The files go at the end: two processes see to that, should one be killed.
"""

import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GRACE_S = 15
LOOK_S = 0.2
MARK = "RDMAPROV_RUN"


def version(command):
    """Return what a command says of its version, nothing if it does not start."""
    try:
        argv = [command, "--version"]
        done = subprocess.run(argv, stdin=-3, stdout=-1, stderr=-3, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")[:80]


def memory():
    """Return a directory in memory of this user, nothing if there is none."""
    own = os.environ.get("XDG_RUNTIME_DIR") or "/run/user/{}".format(os.geteuid())
    place = own if os.geteuid() else "/run"
    return place if os.access(place, os.W_OK | os.X_OK) else ""


def marked(mark):
    """Yield the processes of a run, by a variable in their environment."""
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    yield int(path[6:])
        except OSError:
            pass  # it ended, or is another user's


def interrupt(mark, worker):
    """Ask Ansible to end, which the worker started with a session of its own."""
    for process in marked(mark):
        try:
            with open("/proc/{}/stat".format(process)) as file:
                if int(file.read().rpartition(")")[2].split()[1]) == worker:
                    os.killpg(process, signal.SIGINT)
        except OSError:
            pass


def clean(mark, directory):
    """Leave no process and no file."""
    for _ in range(200):
        left = list(marked(mark))
        shutil.rmtree(directory, ignore_errors=True)
        if not left and not os.path.exists(directory):
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(LOOK_S / 4)


def environment(mark, directory, place):
    """Return Ansible's: with none of the settings of this machine, and no other place."""
    own = {name: each for name, each in os.environ.items() if not name.startswith("ANSIBLE_")}
    project, sockets = directory + "/project", place + "/rdmaprov-cp"
    os.makedirs(sockets, 0o700, exist_ok=True)
    own.update([mark.split("=")], LC_ALL="C.UTF-8", TMPDIR=directory, ANSIBLE_HOME=directory)
    own.update(ANSIBLE_CONFIG=project + "/ansible.cfg", ANSIBLE_COLLECTIONS_PATH=project)
    own.update(ANSIBLE_SSH_CONTROL_PATH_DIR=sockets, RDMAPROV_PYTHON=sys.executable)
    if sys.version_info >= (3, 9) and not os.statvfs(directory).f_flag & os.ST_NOEXEC:
        own.update(ANSIBLE_SSH_EXECUTABLE=directory + "/login/ssh")  # else it says less
    return own


def work(job, mark, directory, place):
    """Run the worker until its end, or that of the controller; return its exit status."""
    signals, inputs, deadline, parent = [], [0], None, os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: signals.append(0))
    worker = subprocess.Popen(
        ["ansible-runner", "worker", "--private-data-dir", directory],
        stdin=subprocess.PIPE,
        env=environment(mark, directory, place),
        cwd=directory,
        start_new_session=True,
    )
    try:
        worker.stdin.write(job)
        worker.stdin.close()
    except OSError:
        pass  # it ended; its status says why
    while worker.poll() is None and len(signals) < 2:
        if select.select(inputs, [], [], LOOK_S)[0] and not os.read(0, 4096):
            inputs = []
        if deadline is None and (signals or not inputs or os.getppid() != parent):
            deadline = time.monotonic() + GRACE_S
            interrupt(mark, worker.pid)
        if deadline is not None and time.monotonic() > deadline:
            break
    clean(mark, directory)
    worker.kill()
    return worker.wait() % 256


def main():
    """Say what is there, then do one job."""
    os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ.get("PATH", os.defpath)
    place = memory()
    here = {"ansible-core": version("ansible-playbook"), "place": place}
    here.update({"ansible-runner": version("ansible-runner"), "cores": os.cpu_count() or 1})
    os.write(1, json.dumps(here).encode("ascii") + b"\n")
    size = int(sys.stdin.buffer.readline() or 0)
    job = sys.stdin.buffer.read(size)
    if not size or len(job) < size:
        return 1
    mark = "{}={}".format(MARK, os.urandom(16).hex())
    directory = tempfile.mkdtemp(prefix="rdmaprov-", dir=place)
    try:
        child = os.fork()
        if not child:
            return work(job, mark, directory, place)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
        status = os.waitpid(child, 0)[1]
        return status >> 8 if status & 127 == 0 else 1
    finally:
        clean(mark, directory)


if __name__ == "__main__":
    sys.exit(main())
