"""A stand-in for systemd-run and systemctl, where no systemd runs: units that end as systemd's do.

    systemd_standin.py DIRECTORY VERSION systemd-run|systemctl ARGUMENTS...

Each unit has a process that is its manager: the orphans of its processes become the manager's, so
that all of them are known, as in a control group. It knows the properties that rdmaprov sets, and
refuses others as systemd does. DIRECTORY has a file for each unit.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SINCE = {"OOMPolicy": 243}
KNOWN = {
    "KillMode", "TimeoutStopSec", "OOMScoreAdjust", "BindsTo", "After", "RemainAfterExit",
    "KillSignal", "RuntimeMaxSec", "TasksMax", "LimitNOFILE", "LimitMEMLOCK", "MemoryMax",
    "OOMPolicy", "DefaultDependencies", "Conflicts", "Before",
}  # fmt: skip
NOT_FOUND = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead"}
UNKNOWN = {**NOT_FOUND, "Result": "success", "ExecMainCode": "0", "ExecMainStatus": "0"}
RUNS = {**UNKNOWN, "LoadState": "loaded", "ActiveState": "active", "SubState": "running"}
WAIT_S = 20


def install(directory: Path, version: int) -> Path:
    programs = directory / "bin"
    programs.mkdir(parents=True)
    (directory / "units").mkdir()
    for name in ("systemd-run", "systemctl"):
        # An interrupted program ends what has its mark; a unit has another environment.
        start = f"env -u RDMAPROV_RUN {sys.executable}"
        words = f'{start} -I {__file__} {directory}/units {version} {name} "$@"'
        (programs / name).write_text(f"#!/bin/sh\nexec {words}\n")
        (programs / name).chmod(0o755)
    return programs


def unit_name(name: str) -> str:
    return name if name.endswith(".service") else f"{name}.service"


class Manager:
    """What systemd is for one unit."""

    def __init__(self, place: Path, properties: dict[str, str], collect: bool) -> None:
        self.place, self.properties, self.collect = place, properties, collect
        self.state = dict(RUNS)
        self.end = time.monotonic() + float(properties.get("RuntimeMaxSec", "inf"))
        self.status: int | None = None
        self.main = 0

    def publish(self) -> None:
        new = self.place.with_suffix(".new")
        new.write_text(json.dumps({**self.state, "MainPID": str(self.main)}))
        new.rename(self.place)

    def run(self, words: list[str], ready: int) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A unit has the manager's environment, not that of who starts it.
        self.main = subprocess.Popen(words, env={"PATH": os.environ["PATH"]}).pid
        self.publish()
        os.close(ready)
        while not (why := self.reason()):
            time.sleep(0.02)
        self.conclude(why)

    def reason(self) -> str:
        self.reap()
        bound = self.properties.get("BindsTo")
        if self.place.with_suffix(".stop").exists():
            return "stop"
        if bound and not (self.place.parent / bound).exists():
            return "stop"
        if time.monotonic() > self.end:
            return "timeout"
        if self.memory() > float(self.properties.get("MemoryMax", "inf")):
            return "oom-kill"
        if self.status is None or self.state["SubState"] == "exited":
            return ""
        if self.status == 0 and self.properties.get("RemainAfterExit") == "yes":
            self.state.update(SubState="exited", ExecMainCode="1")
            self.publish()
            return ""
        return "signal" if self.status < 0 else "exit-code" if self.status else "success"

    def reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.main:
                    self.status = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            pass

    def processes(self) -> list[int]:
        """Return the descendants of this process, without other managers and their units."""
        parents = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                other = __file__.encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if fields[0] != "Z" and not other:
                parents[int(entry.name)] = int(fields[1])
        found = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found - {os.getpid()})

    def memory(self) -> int:
        if "MemoryMax" not in self.properties:
            return 0
        pages = 0
        for pid in self.processes():
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except OSError:
                continue
        return pages * os.sysconf("SC_PAGESIZE")

    def conclude(self, why: str) -> None:
        """End all processes, and leave what is known of them."""
        self.state.update(ActiveState="deactivating", SubState="stop-sigterm")
        self.publish()
        number = getattr(signal, self.properties.get("KillSignal", "SIGTERM"))
        end = time.monotonic() + float(self.properties.get("TimeoutStopSec", "90"))
        first = True
        while left := self.processes():
            late = time.monotonic() > end or (first is False and self.main not in left)
            for pid in left:
                if pid == self.main or late or self.properties.get("KillMode") != "mixed":
                    sent = signal.SIGKILL if late else number
                    if first or late:
                        kill(pid, sent)
            first = False
            time.sleep(0.02)
            self.reap()
        self.reap()
        killed = self.status is not None and self.status < 0
        failed = why not in ("stop", "success") or (self.status or 0) != 0
        result = why if why != "stop" else "signal" if killed else "exit-code"
        self.state.update(
            ActiveState="failed" if failed else "inactive",
            SubState="failed" if failed else "dead",
            Result=result if failed else "success",
            ExecMainCode="2" if killed else "1",
            ExecMainStatus=str(abs(self.status or 0)),
        )
        self.main = 0
        if failed and not self.collect:
            self.publish()
        else:
            self.place.unlink()
        self.place.with_suffix(".stop").unlink(missing_ok=True)


def kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def refuse(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


def systemd_run(units: Path, version: int, words: list[str]) -> int:
    options, command = words[: words.index("--")], words[words.index("--") + 1 :]
    given = dict(option.partition("=")[::2] for option in options if "--property" not in option)
    properties = dict(
        option.partition("=")[2].partition("=")[::2]
        for option in options
        if option.startswith("--property=")
    )
    if properties.get("DefaultDependencies") != "no":
        return refuse("a unit would start sysinit.target and what that holds")
    for name in properties:
        if name not in KNOWN or version < SINCE.get(name, 0):
            return refuse(f"Unknown assignment: {name}={properties[name]}")
    place = units / unit_name(given["--unit"])
    if place.exists():
        return refuse(f"Failed to start transient service unit: Unit {place.name} exists")
    ready, done = os.pipe()
    if os.fork():
        os.close(done)
        os.read(ready, 1)
        return 0
    os.setsid()
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    os.close(ready)
    Manager(place, properties, "--collect" in given).run(command, done)
    return 0


def stop(units: Path, names: list[str]) -> int:
    places = [units / unit_name(name) for name in names]
    for place in places:
        if is_up(place):
            place.with_suffix(".stop").touch()
    end = time.monotonic() + WAIT_S
    while any(map(is_up, places)) and time.monotonic() < end:
        time.sleep(0.02)
    return 0


def is_up(place: Path) -> bool:
    try:
        return json.loads(place.read_text())["ActiveState"] not in ("failed", "inactive")
    except FileNotFoundError:
        return False


def systemctl(units: Path, version: int, words: list[str]) -> int:
    names = [word for word in words[1:] if not word.startswith("--")]
    if words == ["--version"]:
        sys.stdout.write(f"systemd {version} (stand-in)\n+PAM\n")
    elif words[0] == "show":
        place = units / unit_name(names[0])
        seen = json.loads(place.read_text()) if place.exists() else UNKNOWN
        for word in words[1:]:
            if word.startswith("--property="):
                for name in word.partition("=")[2].split(","):
                    sys.stdout.write(f"{name}={seen.get(name, '')}\n")
    elif words[0] == "stop":
        return stop(units, names)
    elif words[0] == "reset-failed":
        for name in names:
            if not is_up(units / unit_name(name)):
                (units / unit_name(name)).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    directory, number, program, *rest = sys.argv[1:]
    act = systemd_run if program == "systemd-run" else systemctl
    sys.exit(act(Path(directory), int(number), rest))
