"""What `check` says of the controller itself."""

from __future__ import annotations

from rdmaprov.cli.check import controller_note


def test_small_neighbor_table_of_the_controller_is_noted(tmp_path):
    path = tmp_path / "proc/sys/net/ipv4/neigh/default/gc_thresh3"
    assert controller_note(2000, tmp_path) == ""  # not Linux, or a namespace
    path.parent.mkdir(parents=True)
    path.write_text("1024\n")
    assert controller_note(512, tmp_path) == ""
    said = controller_note(2000, tmp_path)
    assert "holds 1024 entries" in said
    assert said.endswith("sysctl -w net/ipv4/neigh/default/gc_thresh3=8000")
