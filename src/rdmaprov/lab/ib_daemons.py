"""The programs that are a subnet on ibsim: ibsim itself, and the opensm of each plane."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab import tools
from rdmaprov.lab.ib_topology import PLANES_RANGE, hca_name
from rdmaprov.lab.process import STOP_TIMEOUT_S, Daemon

# A subnet of 2,048 HCAs is up after 4 s; a machine can be 30 times slower.
UP_TIMEOUT_S = 120.0
_POLL_S = 0.1
_CONFIGURED = re.compile(r"(\S+) tables configured")
_SECOND = "opensm-second"
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
        """Start ibsim with a fabric, and wait until it answers.

        Raises:
            SubnetNotUp: no answer within UP_TIMEOUT_S.
        """
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
        """Start the opensm of a plane, and wait until it has written tables.

        Raises:
            SubnetNotUp: no tables within UP_TIMEOUT_S.
        """
        name = _manager(plane)
        log = self.root / f"{name}.log"
        log.unlink(missing_ok=True)
        (self.root / "opensm.conf").write_text(f"routing_engine {engine}\n")
        # -d2: write each line of the log at once.
        argv = ["-F", str(self.root / "opensm.conf"), "-d2", *more]
        self._start_opensm(name, hca_name(1, plane), argv)
        self._wait(name, ("tables configured", "SUBNET UP"))

    def start_second_manager(self) -> None:
        """Start an opensm on the second node's first rail, and wait until it stands by.

        Raises:
            SubnetNotUp: no standby within UP_TIMEOUT_S.
        """
        (self.root / f"{_SECOND}.log").unlink(missing_ok=True)
        self._start_opensm(_SECOND, hca_name(2, 0), ["-d2"])
        self._wait(_SECOND, ("STANDBY",))

    def _start_opensm(self, name: str, hca: str, argv: Sequence[str]) -> None:
        found = tools.find("opensm") or "opensm"
        words = ["env", *self.client_settings(), f"SIM_HOST={hca}", found, *argv]
        self._start(name, [*words, "-f", str(self.root / f"{name}.log")], f"{name}.out")

    def stop_manager(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the opensm of the first plane; kill it after timeout_s."""
        self._daemon(_manager(0)).stop(timeout_s)

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
