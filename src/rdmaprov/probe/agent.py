#!/usr/bin/env python3
"""Answer requests for commands until standard input ends. Runs on the node; needs Python 3.6.

    python3 -I -S agent.py MARK

The first line of its own is MARK; whatever a login shell printed comes before it. A request is a
line "ID LIMIT LENGTH LENGTH", where LIMIT is in seconds, with "+" behind it for a command that may
take one limit more, and then as many bytes of the command and of its input. Its answer, in the
order of their ends, is a line "ID STATUS LENGTH LENGTH" and what the command wrote to its output
and its errors, or why there is no result where STATUS is "-". It writes no file, so a full disk is
no obstacle.

A fleet waits for the start of this program, so it takes what is built into Python alone: subprocess
and json would triple it, and the enum behind signal is a part of that.
"""

import _signal  # type: ignore[import-not-found] # mypy knows no module of CPython's own
import os
import select
import sys
import time

AT_ONCE = 8
IDLE_S = 900  # without a request, the controller is gone and ssh does not know it
MOST_BYTES = 8 * 1024 * 1024  # of one command's output; the controller keeps all nodes'
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # where ip, dcb and ethtool are; not in a user's PATH
END_S = 0.002  # between looks at a command that closed its output and has not ended
HARD_S = 1  # for one that was killed
NOR = ", nor in "  # of a command that had one limit more: the controller then grants no other
TOGETHER_S = 0.02  # an answer waits so long for others: each write costs ssh at both ends a packet
LISTED_S = 0.25  # and so long while requests wait for their start
TOGETHER_BYTES = 65536
IGNORED = [_signal.SIGPIPE, _signal.SIGXFSZ]  # by Python, not by what it starts
# What no shell does anything about, and programs that no shell has built in: many short commands
# are one of these with such words, and the shell that starts it takes as long as it does.
INERT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=@%+,- "
PROGRAMS = (
    b"cat dpkg-query ethtool getent hostname id ip ls readlink rpm stat systemctl uname".split()
)
# What testinfra asks of a name each, what tells the same of many at once, and what ends an answer:
# dpkg-query reads all packages each time it starts.
BY_NAME = {
    b"dpkg-query -f '${Status}' -W": (b"dpkg-query -f '${Package} = ${Status}\\n' -W", b""),
    b"/usr/sbin/sysctl -n": (b"/usr/sbin/sysctl", b"\n"),
    b"/sbin/sysctl -n": (b"/sbin/sysctl", b"\n"),
}
NAME = INERT.translate(None, b"/:=@%, ")


class Job:
    """A command that runs: its process, our ends of its pipes, and what it wrote so far."""

    def __init__(self, number, limit, is_patient, command, given):
        self.number = number
        self.given = given
        self.written = {}
        self.pipes = []
        self.input = None
        self.pid = self._start(command)
        self.end = time.monotonic() + limit
        self.limit = limit
        self.is_patient = is_patient
        self.more = 0

    def _start(self, command):
        theirs = []
        try:
            theirs.append(self._input() if self.given else os.open(os.devnull, os.O_RDONLY))
            for _ in range(2):
                ours, other = os.pipe()
                self.pipes.append(ours)
                theirs.append(other)
                self.written[ours] = bytearray()
            return start_command(command, theirs)
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _input(self):
        other, self.input = os.pipe()
        os.set_blocking(self.input, False)
        return other

    def read(self, pipe):
        """Keep what it wrote; say so if that is too much."""
        data = os.read(pipe, 65536)
        if not data:
            self.pipes.remove(pipe)
            os.close(pipe)
        self.written[pipe] += data
        return len(self.written[pipe]) <= MOST_BYTES

    def feed(self):
        """Write a part of its input; the end closes it."""
        try:
            self.given = self.given[os.write(self.input, self.given[:65536]) :]
        except BrokenPipeError:
            self.given = b""
        if not self.given:
            os.close(self.input)
            self.input = None

    def exit_status(self):
        """Return its exit status, or None if it has none yet."""
        if self.pipes:
            return None
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            return None
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def kill(self):
        """End it and what it started; one that hangs in the kernel is left alone."""
        end_group(self.pid)
        end = time.monotonic() + HARD_S
        while not os.waitpid(self.pid, os.WNOHANG)[0] and time.monotonic() < end:
            time.sleep(END_S)

    def close(self):
        """Close what is left of its pipes."""
        for pipe in self.pipes + ([] if self.input is None else [self.input]):
            os.close(pipe)


def words(command):
    """Return the words of a command that needs no shell; none if it may need one."""
    found = []
    parts = command.split(b"'")
    for number, part in enumerate(parts):
        if number % 2:
            found.append(part)
            continue
        inside = (number == 0 or part[:1] in (b"", b" ")) and (
            number == len(parts) - 1 or part[-1:] == b" "
        )
        if part.strip(INERT) or not inside:
            return []
        found += part.split()
    known = found and (found[0][:1] == b"/" or found[0] in PROGRAMS)
    return found if known and len(parts) % 2 else []


def start_command(command, streams):
    """Start a command in a session of its own, with these streams; return its process's number."""
    moves = [(os.POSIX_SPAWN_DUP2, stream, to) for to, stream in enumerate(streams)]
    options = {"file_actions": moves, "setsid": True, "setsigdef": IGNORED}
    argv = words(command)
    if argv:
        try:
            return os.posix_spawnp(argv[0], argv, os.environ, **options)
        except OSError:
            pass  # the shell knows what to say
    return os.posix_spawn("/bin/sh", ["/bin/sh", "-c", command], os.environ, **options)


def start_by_old_python(command, streams):
    """Do the same before Python 3.8."""
    import subprocess

    argv = ["/bin/sh", "-c", command]
    process = subprocess.Popen(argv, -1, None, *streams, start_new_session=True)
    process.returncode = 0  # or it would wait for the process itself when nobody knew it any more
    return process.pid


if not hasattr(os, "posix_spawn"):
    start_command = start_by_old_python


def merged(requests):
    """Return requests with those as one that one start of a program answers; see Agent.split."""
    groups = {}
    for request in requests:
        number, limit, _, command, given = request
        head, _, name = command.rpartition(b" ")
        is_odd = head not in BY_NAME or given or name[:1] in b"-" or name.strip(NAME)
        key = number if is_odd or name in groups.get((head, limit), ()) else (head, limit)
        groups.setdefault(key, {})[name] = request
    for key, named in groups.items():
        if len(named) == 1:
            yield named.popitem()[1]
        else:
            command, end = BY_NAME[key[0]]
            yield (named, end), key[1], False, b" ".join([command, *named]), b""


def end_group(pid):
    """Kill a process and what it started."""
    try:
        os.killpg(pid, _signal.SIGKILL)
    except OSError:
        pass


class Agent:
    """Commands that wait, commands that run, and the requests that come in."""

    def __init__(self):
        self.most = max(2, min(AT_ONCE, os.cpu_count() or 1))
        self.received = b""
        self.waiting = []
        self.running = []
        self.unsent = b""
        self.send_at = self.heard = time.monotonic()
        self.starting = self.leaving = False
        self.patient_until = None  # while late commands are waited for; 0: that was in vain once

    def serve(self):
        """Answer until there is nobody to answer."""
        while True:
            self.start()
            self.send()
            by_pipe = {pipe: job for job in self.running for pipe in job.pipes}
            poll = select.poll()
            poll.register(0, select.POLLIN)
            for pipe in by_pipe:
                poll.register(pipe, select.POLLIN)
            for job in self.running:
                if job.input is not None:
                    by_pipe[job.input] = job
                    poll.register(job.input, select.POLLOUT)
            for descriptor, _ in poll.poll(1000 * self.patience()):
                if descriptor != 0:
                    self.attend(by_pipe[descriptor], descriptor)
                elif not self.hear():
                    return self.flush()
            self.finish()
            if time.monotonic() > self.heard + IDLE_S:
                return self.flush()

    def attend(self, job, pipe):
        """Read what a command wrote, or write what it reads."""
        if job not in self.running:
            return  # given up a moment ago
        if pipe == job.input:
            job.feed()
        elif not job.read(pipe):
            self.give_up(job, "its output exceeds {} bytes".format(MOST_BYTES))

    def patience(self):
        """Return how many seconds nothing may happen before there is something to do."""
        if any(not job.pipes for job in self.running):
            return END_S
        ends = [job.end for job in self.running] + [self.heard + IDLE_S]
        if self.unsent:
            ends.append(self.send_at)
        return max(0, min(ends) - time.monotonic() + END_S)

    def hear(self):
        """Take requests; say whether there may be more."""
        data = os.read(0, 1 << 20)
        self.heard = time.monotonic()
        self.received += data
        heard = []
        while b"\n" in self.received:
            head, _, rest = self.received.partition(b"\n")
            number, limit, *lengths = head.split()
            command, given = map(int, lengths)
            if len(rest) < command + given:
                break
            texts = rest[:command], rest[command : command + given]
            is_patient = limit.endswith(b"+")
            heard.append((int(number), float(limit.rstrip(b"+")), is_patient, *texts))
            self.received = rest[command + given :]
        self.waiting += merged(heard)
        return bool(data)

    def start(self):
        """Start what there is room for."""
        while self.waiting and len(self.running) < self.most:
            request = self.waiting.pop(0)
            self.starting = True
            try:
                self.running.append(Job(*request))
            except (OSError, ValueError) as error:
                self.refuse(request[0], "it cannot start: {}".format(error))
            finally:
                self.starting = False
            if self.leaving:
                self.stop()

    def finish(self):
        """Answer for what has ended, and end what is late."""
        now = time.monotonic()
        for job in list(self.running):
            status = job.exit_status()
            if status is not None:
                self.running.remove(job)
                job.close()
                self.answer(job.number, status, *job.written.values())
                if job.more and self.patient_until:
                    self.patient_until = None  # the node was slow
            elif now >= job.end and not self.extend(job, now):
                why = "no answer in {:g} s".format(job.limit)
                if job.more:
                    self.patient_until = 0
                    why += "{}{:g} s more".format(NOR, round(job.more, 1))
                self.give_up(job, why)

    def extend(self, job, now):
        """Give a late command one limit more; say whether it has it. Late ones share that time."""
        if self.patient_until is None and job.is_patient:
            self.patient_until = now + job.limit
        if job.more or not job.is_patient or self.patient_until <= now:
            return False
        job.end, job.more = self.patient_until, self.patient_until - now
        return True

    def give_up(self, job, why):
        """End a command and answer why it has no result."""
        self.running.remove(job)
        job.kill()
        job.close()
        self.refuse(job.number, why)

    def answer(self, number, status, out, err):
        """Have an answer sent, with those that come soon."""
        if isinstance(number, tuple):
            self.split(*number, status, out, err)
            return
        if not self.unsent:
            self.send_at = time.monotonic() + (LISTED_S if self.waiting else TOGETHER_S)
        head = "{} {} {} {}\n".format(number, status, len(out), len(err))
        self.unsent += head.encode("ascii") + out + err

    def split(self, named, end, status, out, err):
        """Answer requests from what one program said of their names; if it is odd, run each."""
        *lines, rest = bytes(out).split(b"\n")
        said = {}
        for name, _, value in (line.partition(b" = ") for line in lines):
            said[name] = said.get(name, b"") + value + end
        if status != 0 or err or rest or said.keys() != named.keys():
            self.waiting += named.values()
            return
        for name, request in named.items():
            self.answer(request[0], 0, said[name], b"")

    def refuse(self, number, why):
        """Answer that there is no result."""
        self.answer(number, "-", b"", why.encode("utf-8", "replace"))

    def send(self):
        """Write the answers unless others may come soon."""
        late = time.monotonic() >= self.send_at
        if late or len(self.unsent) >= TOGETHER_BYTES or not self.running:
            self.flush()

    def flush(self):
        """Write the answers."""
        data, self.unsent = self.unsent, b""
        while data:
            data = data[os.write(1, data) :]

    def stop(self, *_signal):
        """End everything at once: whoever asked is gone."""
        self.leaving = True
        if self.starting:
            return  # so that what was started is known
        self.end_all()
        os._exit(0)

    def end_all(self):
        """Kill what runs."""
        for job in self.running:
            end_group(job.pid)


def main(mark):
    """Serve until standard input ends."""
    os.environ["LC_ALL"] = "C"
    os.environ["PATH"] = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin") + ":" + SBIN
    agent = Agent()
    _signal.signal(_signal.SIGTERM, agent.stop)
    os.write(1, b"\n" + mark.encode("ascii") + b"\n")
    try:
        agent.serve()
    finally:
        agent.end_all()


if __name__ == "__main__":
    main(sys.argv[1])
