"""Programs on nodes that run as units: memory, versions of systemd, a step of Slurm."""

from __future__ import annotations

import sys

import pytest
from tests.unit.helpers.supervised import Kept, alter, marked, use_systemd
from tests.unit.helpers.waiting import until

from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target

pytestmark = pytest.mark.waits

HUNGRY = f"exec {sys.executable} -c 'import time; x = b\"x\" * (256 << 20); time.sleep(600)'"


def start_with_systemd(monkeypatch, tmp_path, script, version=252):
    """Return a script that runs by the stand-in, and its nodes."""
    use_systemd(monkeypatch, tmp_path, version)
    here = Probe({"n0": Target("n0", "", ("/bin/sh", "-c"), sys.executable, 60)})
    return here, Kept(here, script)


def test_ranks_that_take_too_much_memory_are_ended_and_it_is_told(monkeypatch, tmp_path):
    # A ten-thousandth of what is free is too little for a Python with 256 MiB on any machine.
    alter(monkeypatch, "MEMORY_SHARE = 0.9", "MEMORY_SHARE = 1e-4")
    here, kept = start_with_systemd(monkeypatch, tmp_path, HUNGRY)
    try:
        assert until(lambda: kept.status()["rc"] is not None)
        assert kept.status()["rc"] == -9
        assert kept.status()["why"] == "killed by the kernel: out of memory"
        assert marked(kept.mark) == []
    finally:
        assert kept.stop() == {"left": []}
        here.close()


@pytest.mark.parametrize("version", [239, 257])
def test_each_version_of_systemd_gets_what_it_knows(monkeypatch, tmp_path, version):
    here, kept = start_with_systemd(monkeypatch, tmp_path, "exit 7", version)
    try:
        assert until(lambda: kept.status()["rc"] == 7)
    finally:
        assert kept.stop() == {"left": []}
        here.close()


def test_a_systemd_that_is_too_old_is_not_asked(monkeypatch, tmp_path):
    here, kept = start_with_systemd(monkeypatch, tmp_path, "sleep 600", 219)
    try:
        assert list((tmp_path / "systemd" / "units").iterdir()) == []
    finally:
        assert kept.stop() == {"left": []}
        here.close()


def test_a_step_of_slurm_is_not_left(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    here, kept = start_with_systemd(monkeypatch, tmp_path, "sleep 600")
    try:
        assert list((tmp_path / "systemd" / "units").iterdir()) == []
    finally:
        assert kept.stop() == {"left": []}
        here.close()
