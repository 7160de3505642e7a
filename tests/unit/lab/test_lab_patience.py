"""Time limits of the lab follow from what was measured of its machine."""

from __future__ import annotations

import json

import pytest

from rdmaprov.lab import patience
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.patience import MOST, QUIET_BOOT_S, QUIET_PROBE_S, Speed

NOW = 1000.0


class Machine:
    """A machine whose boot probe takes a time."""

    def __init__(self, monkeypatch):
        self.now = NOW
        self.probe_s = QUIET_PROBE_S
        self.probes = 0
        monkeypatch.setattr("rdmaprov.lab.patience.time.time", lambda: self.now)
        monkeypatch.setattr("rdmaprov.lab.patience.time.monotonic", lambda: self.now)
        monkeypatch.setattr("rdmaprov.lab.accel.boots", self.boots)

    def boots(self, accel, timeout_s):
        assert accel is Accel.TCG
        self.probes += 1
        self.now += min(self.probe_s, timeout_s)
        return self.probe_s < timeout_s


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


@pytest.mark.parametrize(
    ("slower", "factor"), [(0.05, 1), (1, 1), (2.5, 2.5), (MOST, MOST), (1000, MOST)]
)
def test_limit_is_as_much_longer_as_the_probe_took(slower, factor, machine, tmp_path):
    machine.probe_s = slower * QUIET_PROBE_S
    patience.measure(tmp_path, Accel.TCG)
    assert patience.limit_s(60, tmp_path) == pytest.approx(60 * factor, rel=1e-3)


@pytest.mark.parametrize(("slower", "factor"), [(0.1, 2), (3, 3), (100, MOST)])
def test_boot_that_took_longer_than_the_probe_says_counts(slower, factor, machine, tmp_path):
    machine.probe_s = 2 * QUIET_PROBE_S
    patience.measure(tmp_path, Accel.TCG)
    patience.keep_boot(tmp_path, slower * QUIET_BOOT_S)
    assert patience.limit_s(60, tmp_path) == pytest.approx(60 * factor, rel=1e-3)


def test_measurement_is_made_anew_after_a_minute_and_keeps_the_boot(machine, tmp_path):
    patience.measure(tmp_path, Accel.TCG)
    patience.keep_boot(tmp_path, 30)
    machine.probe_s = 4 * QUIET_PROBE_S
    machine.now = NOW + patience.MAX_AGE_S - 1
    patience.measure(tmp_path, Accel.TCG)
    assert machine.probes == 1
    assert patience.limit_s(1, tmp_path) == pytest.approx(1)
    machine.now = NOW + patience.MAX_AGE_S + 1
    patience.measure(tmp_path, Accel.TCG)
    assert machine.probes == 2
    assert patience.limit_s(1, tmp_path) == pytest.approx(4)
    assert json.loads((tmp_path / patience.FILE).read_text())["boot_s"] == 30


def test_node_has_the_patience_of_its_lab(tmp_path):
    Speed(NOW, 3 * QUIET_PROBE_S).save(tmp_path)
    node = tmp_path / "nodes" / "node1"
    assert patience.limit_s(5, node) == pytest.approx(15)


@pytest.mark.parametrize("text", [None, "", "{}", '{"measured_at": 1, "fast": 2}', "[1]"])
def test_what_cannot_be_read_leaves_the_limits_of_a_quiet_machine(text, tmp_path):
    if text is not None:
        (tmp_path / patience.FILE).write_text(text)
    assert patience.read(tmp_path) is None
    assert patience.limit_s(5, tmp_path) == 5
