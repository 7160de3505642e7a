"""A Slurm of this machine's own: its munged, slurmctld and a slurmd for each made-up node."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.waiting import until

# Another Slurm than this machine's: a directory of its programs, see in_root.
OTHER = "RDMAPROV_TEST_SLURM"
_PATH = ":".join(filter(None, [os.environ.get(OTHER), os.environ.get("PATH"), "/usr/sbin"]))
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc")
CONFIGURATION = cases(__file__, "configuration")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    """Slurm's daemons, children of this process; a socket wants a place with a short name."""

    def __init__(self, place: Path, names: tuple[str, ...], more: str = "") -> None:
        self.place, self.names, self._more = place, names, more
        self.environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf"), "PATH": _PATH}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._start_munge()
        self._configure()
        (self.place / "state").mkdir()
        self._run("slurmctld", "-D")
        for name in self.names:
            self._run("slurmd", "-D", "-N", name)
        idle = f"{len(self.names)} idle"
        assert until(lambda: self.ask("sinfo", "-h", "-o", "%D %T") == idle), self.log()

    def _start_munge(self) -> None:
        key = self.place / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {"key": key, "socket": self.place / "munge.socket"}
        files |= {f"{name}-file": self.place / f"munge.{name}" for name in ("pid", "log", "seed")}
        files["key-file"] = files.pop("key")
        self._run("munged", "-F", "--force", *(f"--{name}={at}" for name, at in files.items()))
        assert until(lambda: files["socket"].exists()), self.log()

    def _configure(self) -> None:
        host = socket.gethostname().partition(".")[0]
        port, *ports = free_ports(1 + len(self.names))
        text = CONFIGURATION.format(host=host, port=port, place=self.place) + self._more
        text += "".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={own} CPUs=2"
            f" RealMemory=100\n"
            for name, own in zip(self.names, ports, strict=True)
        )
        (self.place / "slurm.conf").write_text(text)

    def _run(self, *words: str) -> None:
        log = (self.place / "output").open("ab")
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
        )
        self._processes.append(process)

    def log(self) -> str:
        return (self.place / "output").read_text(errors="replace")[-3000:]

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            words, capture_output=True, text=True, env=self.environment, check=False
        )
        return done.stdout.strip()

    def jobs(self) -> str:
        return self.ask("squeue", "-h", "-t", "R,PD,CF", "-o", "%A")

    def make_idle(self) -> bool:
        self.ask("scancel", "--full", "--state=RUNNING")
        self.ask("scontrol", "update", f"nodename={','.join(self.names)}", "state=resume")
        return until(lambda: self.ask("sinfo", "-h", "-o", "%T") == "idle")

    def stop(self) -> None:
        self.make_idle()
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def running_cluster(names: tuple[str, ...], more: str = "") -> Iterator[Slurm]:
    """Start a cluster of these nodes, and end it; skip a test where there is none to start."""
    need_slurm()
    with tempfile.TemporaryDirectory(prefix="slurm") as place:
        cluster = Slurm(Path(place), names, more)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def need_slurm() -> None:
    if missing := [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]:
        pytest.skip(f"needs {', '.join(missing)} (Debian's slurmctld, slurmd, slurm-client, munge)")
    if os.getuid():
        pytest.skip("needs root: Slurm's daemons run jobs as their users")
