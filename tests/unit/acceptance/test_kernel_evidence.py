"""What kernels log during an acceptance: the node's own program reads a log that a shim prints."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.madeup.accept import accept
from tests.madeup.faults import FaultKind
from tests.madeup.shape import usual_shape

from rdmaprov.acceptance.evidence.kernel import judge_kernels
from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.connection import Answer

GPU, NIC = "0000:3b:00.0", "0000:5e:00.0"
LOST = f"NVRM: Xid (PCI:{GPU[:-2]}): 79, pid=7, name=a, GPU has fallen off the bus."
PROGRAM = f"NVRM: Xid (PCI:{GPU[:-2]}): 43, pid=7, name=python3"


class Shims:
    """A node whose journalctl prints lines, stamped so many seconds after the preflight."""

    def __init__(self, place: Path, lines, program="journalctl") -> None:
        self.since = time.time()
        began = float(Path("/proc/uptime").read_text().split()[0])
        stamped = [f"[{began + after:12.6f}] {line}" for after, line in lines]
        (place / "log").write_text("\n".join(stamped))
        for name in ("journalctl", "dmesg"):
            does = f"exec cat {place}/log" if name == program else "echo not permitted >&2; exit 1"
            (place / name).write_text(f"#!/bin/sh\n{does}\n")
            (place / name).chmod(0o755)
        self.place = place

    @property
    def facts(self):
        nic = {"netdev": "ens1", "rdma": "mlx5_0", "pci": NIC}
        return {"n1": {"time": self.since, "identity": {"gpus": [{"pci": GPU}], "rails": [nic]}}}

    def run_all(self, commands):
        found = {}
        for name, each in commands.items():
            words = [sys.executable, *shlex.split(each.text)[1:]]
            environment = {"PATH": f"{self.place}{os.pathsep}{os.environ['PATH']}"}
            done = subprocess.run(
                words, input=each.shared + each.given, capture_output=True, env=environment
            )
            found[name] = Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
        return found


def judged(place, *lines, program="journalctl"):
    shims = Shims(place, lines, program)
    found, notes = judge_kernels(shims, shims.facts)
    return [(e.kind, e.nodes, e.rail, e.part, e.proven) for e in found], notes


@pytest.mark.parametrize("program", ["journalctl", "dmesg"])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        (LOST, ("gpu.xid", ("n1",), None, "GPU 0", True)),
        (LOST.replace("79", "999"), ("gpu.xid", ("n1",), None, "GPU 0", False)),
        (
            f"mlx5_core {NIC}: poll_health:801:(pid 0): device's health compromised",
            ("node.fault", ("n1",), 0, "rail 0", True),
        ),
        ("EDAC MC0: 1 UE memory read error", ("node.fault", ("n1",), None, "MC0", True)),
    ],
)
def test_fault_is_named_with_its_node_and_device(tmp_path, line, found, program):
    assert judged(tmp_path, (5, line), program=program) == ([found], [])


def test_fault_of_before_is_history_and_what_needs_no_hand_a_note(tmp_path):
    found, notes = judged(tmp_path, (-60, LOST), (5, PROGRAM), (6, "usb 1-1: new device"))
    assert (found, len(notes)) == ([], 1)
    assert notes[0].startswith(f"n1: its kernel logged {GPU}: Xid 43: the GPU stopped processing")


def test_fault_that_was_repaired_during_the_run_is_a_note(tmp_path):
    loaded = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64"
    found, notes = judged(tmp_path, (5, LOST), (6, loaded))
    assert (found, len(notes)) == ([], 1)


def test_log_that_cannot_be_read_is_not_verified(tmp_path):
    found, notes = judged(tmp_path, (5, LOST), program="")
    assert found == []
    assert notes == ["the kernel's log is not verified on n1: not permitted"]


def test_words_of_a_stranger_cannot_move_the_cursor_nor_fill_the_page(tmp_path):
    killed = "Out of memory: Killed process 7 (\x1b[31mred\x07) total-vm:1kB"
    lines = [(n, f"NVRM: Xid (PCI:{n:04x}:3b:00): 43, pid=7") for n in range(1, 9000)]
    found, notes = judged(tmp_path, (5, killed), *lines)
    assert found == []
    assert all(each.isprintable() for each in notes)
    assert "lines in its middle were not read" in notes[-1]
    assert len("".join(notes)) < 1000


def test_fault_during_a_run_refuses_it_and_names_its_node_alone():
    shape = usual_shape(4)

    def breaks(condition, _chance):
        condition.kernel_log[2] = [LOST]
        return ()

    fault = FaultKind("lost", "", "", "node", breaks)
    result = accept(shape, fault, stages=("state", "preflight", "gpu")).result
    assert {(e.kind, e.nodes) for e in result.findings} == {("gpu.xid", (shape.names[2],))}
    assert result.exit_code() is ExitCode.FAILED
