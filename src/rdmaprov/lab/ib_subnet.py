"""A subnet on ibsim: started with opensm, asked with infiniband-diags, without root."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab import tools
from rdmaprov.lab.ib_faults import SubnetFault
from rdmaprov.lab.ib_topology import PLANES_RANGE, Topology, device_name, hca_name, make, node_name
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.process import STOP_TIMEOUT_S, Daemon

# Those of infiniband-diags 44 that ask a fabric by management packets.
_TOOLS = (
    "dump_fts", "dump_lfts", "dump_mfts", "ibaddr", "ibhosts", "iblinkinfo", "ibnetdiscover",
    "ibnodes", "ibportstate", "ibqueryerrors", "ibroute", "ibswitches", "ibtracert", "perfquery",
    "saquery", "smpdump", "sminfo", "smpquery", "vendstat",
)  # fmt: skip
# umad2sim gives a process one HCA, that of SIM_HOST: the option -C names another. A client that is
# killed leaves a directory where it ran.
_SCRIPT = """\
#!/bin/sh
device={device}
if [ "$1" = -C ]; then device=$2; shift 2; fi
cd {work} || exit
exec env {settings} SIM_HOST="{node} $device" {program} "$@"
"""
TOOLS = {
    "ibsim": "ibsim-utils",
    "opensm": "opensm",
    "ibnetdiscover": "infiniband-diags",
    "dump_fts": "infiniband-diags",
    "perfquery": "infiniband-diags",
}
ENGINES = ("ftree", "updn", "minhop")
# dump_fts reads 205,000 entries within 1 s.
TOOL_TIMEOUT_S = 120.0
# A busy machine may lose an answer of ibsim's: dump_fts then leaves 64 LIDs of a switch out.
_UNANSWERED, _MOST_TRIES = b"SubnGet(LFT) failed", 3
_BY_SIGNAL = 128  # and its number: a shell's exit code of a program that a signal has ended
_TOPOLOGY = "topology.json"


def write(directory: Path, work: Path, settings: Sequence[str]) -> None:
    """Write a program of its own name for each tool that is installed."""
    directory.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    for name in _TOOLS:
        program = tools.find(name)
        if program is None:
            continue
        path = directory / name
        path.write_text(
            _SCRIPT.format(
                device=device_name(0),
                work=shlex.quote(str(work)),
                settings=shlex.join(settings),
                node=node_name(1),
                program=shlex.quote(program),
            )
        )
        path.chmod(0o755)


@dataclass(frozen=True)
class LabSubnet:
    """The subnet of a directory."""

    layout: Layout

    @property
    def _root(self) -> Path:
        return self.layout.root

    @property
    def _daemons(self) -> SubnetDaemons:
        return SubnetDaemons(self._root)

    def is_up(self) -> bool:
        """Return whether the fabric is there to be asked."""
        return self._daemons.is_up()

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
        fabric = self._root / "net"
        fabric.write_text(net.text())
        (self._root / _TOPOLOGY).write_text(json.dumps(asdict(topology)))
        daemons = self._daemons
        write(self._bin, self._root / "work", daemons.client_settings())
        daemons.start_fabric(fabric)
        for plane in range(topology.planes):
            daemons.start_manager(engine, plane=plane)
        for fault in faults:
            self._apply(fault, topology, engine)
        return daemons.engine()

    def _limit(self, hca: str, engine: str) -> None:
        """Have an HCA be a limited member of the default partition, and all others full ones."""
        found = re.search(rf"(0x[0-9a-f]+) [^(]*\( '{hca}' - ", self.run(["ibnetdiscover", "-p"]))
        if found is None:
            raise SubnetNotUp(f"{hca} is not in the subnet", "Run: rdmaprov lab subnet up")
        partitions = self._root / "partitions"
        partitions.write_text(f"Default=0x7fff : ALL=full, {found[1]}=limited;\n")
        self._daemons.stop_manager()
        self._daemons.start_manager(engine, "-P", str(partitions))

    def _apply(self, fault: SubnetFault, topology: Topology, engine: str) -> None:
        if fault.tables:
            tables = self._root / "tables"
            tables.write_text(fault.tables(self.run(["dump_fts"]), topology))
            # In peace: ibsim still gives a killed client the answers of the subnet's manager.
            self._daemons.stop_manager()
            self._daemons.start_manager("file", "-U", str(tables))
        if fault.console:
            self._daemons.type_commands(fault.console(topology))
        if fault.limited:
            self._limit(fault.limited, engine)
        if fault.second_manager:
            self._daemons.start_second_manager()
            self._await_managers(2)
        if fault.without_manager:
            self._daemons.stop_manager(0)

    def _await_managers(self, count: int) -> None:
        """Wait until the master lists this number of managers."""
        began = time.monotonic()
        while self.run(["saquery", "SMIR"]).count("SMInfoRecord") < count:
            if time.monotonic() > began + UP_TIMEOUT_S:
                why = f"the master lists fewer than {count} managers after {UP_TIMEOUT_S:.0f} s"
                raise SubnetNotUp(why, "Run: rdmaprov lab subnet down")
            time.sleep(1)

    @property
    def _bin(self) -> Path:
        return self._root / "bin"

    def topology(self) -> Topology:
        """Return the fabric as it was asked for, without its faults; or raise UsageError."""
        try:
            return Topology(**json.loads((self._root / _TOPOLOGY).read_text()))
        except FileNotFoundError:
            raise _no_subnet() from None

    def environment(self) -> dict[str, str]:
        """Return an environment in which tools ask this subnet; raise UsageError without one."""
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
        environment, program = self._find(argv[0], "Run: apt-get install infiniband-diags")
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
                # On a busy machine, ibqueryerrors' question to the manager runs out of time.
                is_silent = done.returncode != 0 and not done.stdout
                if _UNANSWERED not in done.stderr and not is_silent:
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
        environment, program = self._find(argv[0], "Name a program of your PATH")
        rc = subprocess.run([program, *argv[1:]], env=environment, check=False).returncode
        return rc if rc >= 0 else _BY_SIGNAL - rc

    def _find(self, name: str, hint: str) -> tuple[dict[str, str], str]:
        environment = self.environment()
        program = shutil.which(name, path=environment["PATH"])
        if program is None:
            raise UsageError(f"{name} is not installed", hint)
        return environment, program

    def down(self) -> bool:
        """Stop the programs and remove the directory; return whether there was a subnet."""
        self._stop()
        return self.layout.release()

    def _stop(self) -> None:
        self._daemons.stop()
        for name in ("net", "tables", "partitions", _TOPOLOGY):
            (self._root / name).unlink(missing_ok=True)
        for name in ("work", "bin"):
            shutil.rmtree(self._root / name, ignore_errors=True)


def _no_subnet() -> UsageError:
    return UsageError("there is no subnet", "Run: rdmaprov lab subnet up")


# A subnet of 2,048 HCAs is up after 4 s; a machine can be 30 times slower.
UP_TIMEOUT_S = 120.0
_POLL_S = 0.1
# A busy opensm loses its question to a new manager, and asks again in its next heavy sweep.
_CONFIGURED = re.compile(r"(\S+) tables configured")
_SECOND = "opensm-second"
_READY_S = 0.5  # after it says that it is one, a manager takes this long to answer; our choice
_PRELOAD = "umad2sim/libumad2sim.so"


class SubnetNotUp(RdmaprovError):
    """ibsim or opensm did not do their part."""


@dataclass(frozen=True)
class SubnetDaemons:
    """ibsim and opensm in the directory of a subnet."""

    root: Path

    def _daemon(self, name: str) -> Daemon:
        return Daemon(self.root / f"{name}.process")

    def is_up(self) -> bool:
        """Return whether the fabric is there to be asked."""
        return self._daemon("ibsim").pid() is not None

    def client_settings(self) -> list[str]:
        """Return the environment in which a program of InfiniBand asks this subnet.

        Raises:
            UsageError: the library that leads to ibsim is not there.
        """
        found = sorted(Path("/usr/lib").glob(f"*/{_PRELOAD}"))
        if not found:
            raise UsageError(f"{_PRELOAD} is not there", "Run: apt-get install ibsim-utils")
        return [self._socket(), f"LD_PRELOAD={found[0]}"]

    def _socket(self) -> str:
        """Return what tells this subnet from others of the machine."""
        name = sha256(str(self.root).encode()).hexdigest()[:12]
        return f"IBSIM_SOCKNAME=rdmaprov-{name}"

    def start_fabric(self, net: Path) -> None:
        """Start ibsim with a fabric, and wait until it answers, or raise SubnetNotUp."""
        os.mkfifo(self._console)
        # Opened for both directions, the console has no end.
        words = 'exec ibsim -s -N 16384 -P 400000 "$1" <>"$2"'
        argv = ["sh", "-c", words, "sh", str(net), str(self._console)]
        self._start("ibsim", ["env", self._socket(), *argv], "ibsim.log")
        self._wait("ibsim", ("Network simulator ready",))

    @property
    def _console(self) -> Path:
        return self.root / "console"

    def type_commands(self, text: str) -> None:
        """Write commands to the console of ibsim."""
        # One write: ibsim reads its console line by line.
        with self._console.open("w") as console:
            console.write(text)

    def start_manager(self, engine: str, *more: str, plane: int = 0) -> None:
        """Start a plane's opensm, and wait UP_TIMEOUT_S for its tables; or raise SubnetNotUp."""
        name = _manager(plane)
        log = self.root / f"{name}.log"
        log.unlink(missing_ok=True)
        (self.root / "opensm.conf").write_text(f"routing_engine {engine}\n")
        # -d2: write each line of the log at once.
        argv = ["-F", str(self.root / "opensm.conf"), "-d2", *more]
        self._start_opensm(name, hca_name(1, plane), argv)
        self._wait(name, ("tables configured", "SUBNET UP"))

    def start_second_manager(self) -> None:
        """Start opensm on the second node, and wait until it is standby; or raise SubnetNotUp.

        The first one is stopped until it answers: ibsim has no time limits, so that an answer that
        is lost is awaited forever.
        """
        (self.root / f"{_SECOND}.log").unlink(missing_ok=True)
        self._tell_manager(signal.SIGSTOP)
        try:
            self._start_opensm(_SECOND, hca_name(2, 0), ["-d2"])
            self._wait(_SECOND, ("Setting IS_SM",))
            time.sleep(_READY_S)
        finally:
            self._tell_manager(signal.SIGCONT)
        self._wait(_SECOND, ("STANDBY",))

    def _start_opensm(self, name: str, hca: str, argv: Sequence[str]) -> None:
        found = tools.find("opensm") or "opensm"
        words = ["env", *self.client_settings(), f"SIM_HOST={hca}", found, *argv]
        self._start(name, [*words, "-f", str(self.root / f"{name}.log")], f"{name}.out")

    def stop_manager(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the opensm of the first plane; kill it after timeout_s."""
        self._daemon(_manager(0)).stop(timeout_s)

    def _tell_manager(self, number: signal.Signals) -> None:
        if (manager := self._daemon(_manager(0)).pid()) is not None:
            os.kill(manager, number)

    def engine(self) -> str:
        """Return the routing engine that configured the tables of the first plane."""
        log = self.root / "opensm.log"
        found = _CONFIGURED.findall(log.read_text(errors="replace")) if log.exists() else []
        return found[-1] if found else "none"

    def _start(self, name: str, argv: Sequence[str], output: str) -> None:
        work = self.root / "work"
        work.mkdir(exist_ok=True)
        self._daemon(name).start(argv, work, self.root / output)

    def _wait(self, name: str, words: Sequence[str]) -> None:
        log = self.root / f"{name}.log"
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

    def stop(self) -> None:
        """Stop all at once, and remove what they wrote."""
        # opensm does not end by SIGTERM while the fabric is gone, so it goes first.
        for name in (*map(_manager, PLANES_RANGE), _SECOND):
            self._daemon(name).stop(0)
            for suffix in ("log", "out"):
                (self.root / f"{name}.{suffix}").unlink(missing_ok=True)
        self._daemon("ibsim").stop(0)
        for path in (self._console, self.root / "ibsim.log"):
            path.unlink(missing_ok=True)


def _manager(plane: int) -> str:
    return f"opensm{plane or ''}"
