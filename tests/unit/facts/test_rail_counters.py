"""Which of a device's statistics are read, by what its RDMA device counts."""

from __future__ import annotations

import re

import pytest

from rdmaprov.node import rail_counters

BYTES, PACKETS = re.compile(r"tx_prio\d_bytes"), re.compile(r"tx_prio\d_(bytes|packets)")
COUNTS = {"hw": ("sent_pkts", "np_cnp_sent")}


@pytest.fixture
def asked(monkeypatch):
    """Provide the patterns that a device's statistics were asked with."""
    found = []
    monkeypatch.setattr(rail_counters, "Ethtool", lambda _netdev, wanted: found.append(wanted))
    return found


@pytest.mark.parametrize(("counter", "wanted"), [("sent_pkts", PACKETS), ("np_cnp_sent", BYTES)])
def test_packets_by_priority_are_read_where_rdma_is_counted_in_packets(
    tmp_path, asked, counter, wanted
):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    for directory in ("hw_counters", "gid_attrs/ndevs"):
        (port / directory).mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text("ens1\n")
    (port / "hw_counters" / counter).write_text("7\n")
    (tmp_path / "sys/class/net/ens1").mkdir(parents=True)
    rail = rail_counters.RailCounters(
        {"netdev": "ens1", "pci": ""}, 0, COUNTS, {}, BYTES, str(tmp_path), PACKETS
    )
    assert asked == [wanted]
    assert f"0/hw.{counter}" in dict(rail.fast)
    rail.close()
