"""A subnet on ibsim: started with opensm, asked with infiniband-diags, without root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab import ib_tools, tools
from rdmaprov.lab.ib_faults import SubnetFault
from rdmaprov.lab.ib_topology import PLANES_RANGE, Topology, hca_name, make
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.process import Daemon

TOOLS = {
    "ibsim": "ibsim-utils",
    "opensm": "opensm",
    "ibnetdiscover": "infiniband-diags",
    "dump_fts": "infiniband-diags",
    "perfquery": "infiniband-diags",
}
ENGINES = ("ftree", "updn", "minhop")
# A subnet of 2,048 HCAs is up after 4 s; a machine can be 30 times slower.
UP_TIMEOUT_S = 120.0
# dump_fts reads 205,000 entries within 1 s.
TOOL_TIMEOUT_S = 120.0
_POLL_S = 0.1
# A busy machine may lose an answer of ibsim's: dump_fts then leaves 64 LIDs of a switch out.
_UNANSWERED, _MOST_TRIES = b"SubnGet(LFT) failed", 3
_BY_SIGNAL = 128  # and its number: a shell's exit code of a program that a signal has ended
_CONFIGURED = re.compile(r"(\S+) tables configured")
_TOPOLOGY = "topology.json"
_PRELOAD = "umad2sim/libumad2sim.so"


class SubnetNotUp(RdmaprovError):
    """ibsim or opensm did not do their part."""


@dataclass(frozen=True)
class LabSubnet:
    """The subnet of a directory.

    Args:
        layout: its directory, lock and marker.

    """

    layout: Layout

    @property
    def _root(self) -> Path:
        return self.layout.root

    def _daemon(self, name: str) -> Daemon:
        return Daemon(self._root / f"{name}.process")

    def is_up(self) -> bool:
        """Return whether the fabric is there to be asked."""
        return self._daemon("ibsim").pid() is not None

    def up(self, topology: Topology, engine: str, faults: Sequence[SubnetFault]) -> str:
        """Make the fabric, with faults, and wait until its manager has configured it.

        Returns:
            The routing engine that configured the tables: opensm takes minhop where the fabric
            does not suit the one that was asked for.

        Raises:
            UsageError: a program is not installed.
            SubnetNotUp: it was not up in time.

        """
        tools.require(TOOLS)
        self.layout.claim()
        self._stop()
        net = make(topology)
        for fault in faults:
            if fault.cables:
                fault.cables(net, topology)
        (self._root / "net").write_text(net.text())
        (self._root / _TOPOLOGY).write_text(json.dumps(asdict(topology)))
        ib_tools.write(self._bin, self._root / "work", [*self._settings(), *self._preload()])
        self._start_fabric()
        for plane in range(topology.planes):
            self._start_manager(engine, plane=plane)
        for fault in faults:
            self._apply(fault, topology)
        return self._engine()

    def _apply(self, fault: SubnetFault, topology: Topology) -> None:
        if fault.tables:
            tables = self._root / "tables"
            tables.write_text(fault.tables(self.run(["dump_fts"]), topology))
            # In peace: ibsim still gives a killed client the answers of the subnet's manager.
            self._daemon("opensm").stop()
            self._start_manager("file", "-U", str(tables))
        if fault.console:
            # One write: ibsim reads its console line by line.
            with (self._root / "console").open("w") as console:
                console.write(fault.console(topology))
        if fault.without_manager:
            self._daemon("opensm").stop(0)

    def _start_fabric(self) -> None:
        console = self._root / "console"
        os.mkfifo(console)
        # Opened for both directions, the console has no end.
        words = 'exec ibsim -s -N 16384 -P 400000 "$1" <>"$2"'
        argv = ["sh", "-c", words, "sh", str(self._root / "net"), str(console)]
        self._start("ibsim", ["env", *self._settings(), *argv])
        self._wait("ibsim", ("Network simulator ready",))

    def _start_manager(self, engine: str, *more: str, plane: int = 0) -> None:
        """Start the opensm of a plane, and wait until it has written tables."""
        name = _manager(plane)
        log = self._root / f"{name}.log"
        log.unlink(missing_ok=True)
        (self._root / "opensm.conf").write_text(f"routing_engine {engine}\n")
        # -d2: write each line of the log at once.
        argv = ["-F", str(self._root / "opensm.conf"), "-d2", *more, "-f", str(log)]
        host = f"SIM_HOST={hca_name(1, plane)}"
        found = tools.find("opensm") or "opensm"
        self._start(name, ["env", *self._settings(), *self._preload(), host, found, *argv])
        self._wait(name, ("tables configured", "SUBNET UP"))

    def _engine(self) -> str:
        log = self._root / "opensm.log"
        found = _CONFIGURED.findall(log.read_text(errors="replace")) if log.exists() else []
        return found[-1] if found else "none"

    def _start(self, name: str, argv: Sequence[str]) -> None:
        work = self._root / "work"
        work.mkdir(exist_ok=True)
        output = self._root / ("ibsim.log" if name == "ibsim" else f"{name}.out")
        self._daemon(name).start(argv, work, output)

    def _wait(self, name: str, words: Sequence[str]) -> None:
        log = self._root / f"{name}.log"
        give_up = time.monotonic() + UP_TIMEOUT_S
        while True:
            text = log.read_text(errors="replace") if log.exists() else ""
            if all(each in text for each in words):
                return
            if time.monotonic() > give_up:
                raise SubnetNotUp(
                    f"{name} did not say {words[-1]!r} within {UP_TIMEOUT_S:.0f} s",
                    f"Read {log}; then run: rdmaprov lab subnet down",
                )
            time.sleep(_POLL_S)

    def _settings(self) -> list[str]:
        """Return the environment that tells this subnet from others of the machine."""
        name = sha256(str(self._root).encode()).hexdigest()[:12]
        return [f"IBSIM_SOCKNAME=rdmaprov-{name}"]

    def _preload(self) -> list[str]:
        found = sorted(Path("/usr/lib").glob(f"*/{_PRELOAD}"))
        if not found:
            raise UsageError(f"{_PRELOAD} is not there", "Run: apt-get install ibsim-utils")
        return [f"LD_PRELOAD={found[0]}"]

    @property
    def _bin(self) -> Path:
        return self._root / "bin"

    def topology(self) -> Topology:
        """Return the fabric as it was asked for, whatever its faults.

        Raises:
            UsageError: there is no subnet.

        """
        try:
            return Topology(**json.loads((self._root / _TOPOLOGY).read_text()))
        except FileNotFoundError:
            raise _no_subnet() from None

    def environment(self) -> dict[str, str]:
        """Return an environment in which the tools of InfiniBand ask this subnet.

        Raises:
            UsageError: there is no subnet.

        """
        if not self.is_up():
            raise _no_subnet()
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {**os.environ, "PATH": f"{self._bin}:{path}"}

    def run(self, argv: Sequence[str]) -> str:
        """Return what a tool prints on the first node's first rail, whatever its exit code.

        Raises:
            UsageError: there is no subnet, or no such program.
            SubnetNotUp: the tool did not end in time.

        """
        environment = self.environment()
        program = shutil.which(argv[0], path=environment["PATH"])
        if program is None:
            raise UsageError(f"{argv[0]} is not installed", "Run: apt-get install infiniband-diags")
        try:
            for _ in range(_MOST_TRIES):
                done = subprocess.run(
                    [program, *argv[1:]],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TOOL_TIMEOUT_S,
                    check=False,
                )
                if _UNANSWERED not in done.stderr:
                    break
        except subprocess.TimeoutExpired as error:
            raise SubnetNotUp(
                f"{argv[0]} did not end within {TOOL_TIMEOUT_S:.0f} s",
                "Run: rdmaprov lab subnet up",
            ) from error
        return done.stdout.decode(errors="replace")

    def call(self, argv: Sequence[str]) -> int:
        """Run a program with the tools of this subnet in its PATH; return its exit code.

        Raises:
            UsageError: there is no subnet, or no such program.

        """
        environment = self.environment()
        program = shutil.which(argv[0], path=environment["PATH"])
        if program is None:
            raise UsageError(f"{argv[0]} is not installed", "Name a program of your PATH")
        rc = subprocess.run([program, *argv[1:]], env=environment, check=False).returncode
        return rc if rc >= 0 else _BY_SIGNAL - rc

    def down(self) -> bool:
        """Stop the programs and remove the directory; return whether there was a subnet."""
        self._stop()
        return self.layout.release()

    def _stop(self) -> None:
        # opensm does not end by SIGTERM while the fabric is gone, so it goes first, and at once.
        for plane in PLANES_RANGE:
            name = _manager(plane)
            self._daemon(name).stop(0)
            for suffix in ("log", "out"):
                (self._root / f"{name}.{suffix}").unlink(missing_ok=True)
        self._daemon("ibsim").stop(0)
        for name in ("console", "net", "tables", "ibsim.log", _TOPOLOGY):
            (self._root / name).unlink(missing_ok=True)
        for name in ("work", "bin"):
            shutil.rmtree(self._root / name, ignore_errors=True)


def _manager(plane: int) -> str:
    return f"opensm{plane or ''}"


def _no_subnet() -> UsageError:
    return UsageError("there is no subnet", "Run: rdmaprov lab subnet up")
