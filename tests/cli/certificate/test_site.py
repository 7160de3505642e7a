"""A certificate against the site and the machines of today."""

from __future__ import annotations

import re

import pytest
from tests.cli.certified import make_key, public


def verify_site(fleet, run):
    words = ["--allowed-signers", str(fleet.allowed), "--site", "site"]
    return fleet.run("certificate", "verify", run / "certificate.json", *words)


@pytest.mark.parametrize(
    ("file", "text", "says", "exits"),
    [
        (
            "sys/class/dmi/id/product_serial",
            "SN777777",
            "serial number was SN000001, is SN777777",
            1,
        ),
        (
            "sys/class/infiniband/mlx5_1/node_guid",
            "1:2:3:4",
            "rail 1: GUID of its NIC was 9c63:",
            1,
        ),
        (
            "sys/class/infiniband/mlx5_0/fw_ver",
            "28.44.1036",
            "rail 0: NIC firmware was 28.43.2026",
            4,
        ),
        ("sys/module/nvidia/version", "580.1", "NVIDIA driver was 570.86.15, is 580.1", 4),
    ],
)
def test_what_was_replaced_since_is_named(fleet, run, file, text, says, exits, capfd):
    assert verify_site(fleet, run) == 0
    path = fleet.roots["gpu002"] / file
    old = path.read_text()
    try:
        path.write_text(text)
        assert verify_site(fleet, run) == exits
    finally:
        path.write_text(old)
    assert f"replaced: gpu002: {says}" in capfd.readouterr().out.replace("machine's ", "")


def test_a_node_that_gives_no_answer_is_unknown(fleet, run, monkeypatch, capfd):
    monkeypatch.setattr(fleet, "silent", {"gpu001"})
    assert verify_site(fleet, run) == 4
    assert "unknown: replaced: gpu001" in capfd.readouterr().out


def test_a_site_that_was_changed_is_named(fleet, run, capfd):
    path = fleet.directory / "site/host_vars/gpu001.yml"
    old = path.read_text()
    try:
        path.write_text(f"{old}fabric_rack: r7\n")
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
    said = capfd.readouterr().out
    assert (code, "site: gpu001: its variables" in said, "gpu002" in said) == (1, True, False)


def test_a_node_that_the_certificate_does_not_have_is_unknown(fleet, run, capfd):
    path = fleet.directory / "site/hosts.yml"
    old, own = path.read_text(), fleet.directory / "site/host_vars/gpu001.yml"
    more = fleet.directory / "site/host_vars/gpu009.yml"
    try:
        path.write_text(f"{old}    gpu009:\n")
        more.write_text(re.sub(r"\.\d+/16", ".9/16", own.read_text()))
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
        more.unlink()
    said = capfd.readouterr().out
    assert (code, "unknown: site: gpu009: is a node of the site" in said) == (4, True), said


def test_a_host_key_that_known_hosts_does_not_have_any_more_is_named(fleet, run, capfd):
    path = fleet.directory / "known_hosts"
    old = path.read_text()
    other = public(make_key(run / "other"))
    try:
        kept = [each.rpartition(" ssh-ed25519 ")[0] for each in old.splitlines()]
        path.write_text("".join(f"{each} {other}\n" for each in kept))
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
    said = capfd.readouterr().out
    assert (code, "countersignature: gpu002: was made with a host key" in said) == (1, True), said
