"""The hosts that a fabric is read from: this machine, or nodes of the site over ssh."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.probe import Probe
from rdmaprov.problem import printable
from rdmaprov.site_subnet.tool import ToolOutput, output_of, script


class FabricHost(Protocol):
    """A host with access to the fabric."""

    @property
    def name(self) -> str:
        """How messages name it."""

    def run(self, words: Sequence[str], limit_s: float) -> ToolOutput:
        """Return what a tool printed there; without an exit code if there is no answer."""


class ThisMachine:
    """The controller itself."""

    name = "this machine"

    def run(self, words: Sequence[str], limit_s: float) -> ToolOutput:
        """Return what a tool printed here; what it started ends with it."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", script(words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return ToolOutput(errors=f"no answer within {limit_s:g} s")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return _output(process.returncode, out, err.decode(errors="replace"))


class NodeOfSite:
    """A node of the site."""

    def __init__(self, name: str, probe: Probe) -> None:
        self.name = name
        self._probe = probe

    def run(self, words: Sequence[str], limit_s: float) -> ToolOutput:
        """Return what a tool printed there."""
        try:
            answer = self._probe.run(self.name, script(words), fresh=True, limit_s=limit_s)
        except NodeError as error:
            return ToolOutput(errors=printable(str(error)))
        return _output(answer.rc, answer.out.encode("utf-8", "surrogateescape"), answer.err)


def _output(rc: int, data: bytes, errors: str) -> ToolOutput:
    try:
        return output_of(rc, data, errors)
    except ValueError as error:
        return ToolOutput(errors=f"{errors}\n{error}")
