"""What a suite can miss: NCCL turned off beside its file, links lost on disk, one ETS class."""

import pytest
import yaml

pytestmark = pytest.mark.lab

STATE, TOUCHES = "provisioned", ("node1",)
NODE = "node1"
OFF = "NCCL_IB_DISABLE=1"
SLURMD = "/etc/systemd/system/slurmd.service"
# Where NCCL is turned off: how, and what names it.
PLACES = {
    "home of root": (f"echo {OFF} > /root/.nccl.conf", "/root/.nccl.conf"),
    "home of a user": (
        f"useradd --create-home trainer && echo {OFF} > /home/trainer/.nccl.conf",
        "/home/trainer/.nccl.conf",
    ),
    "daemon of jobs": (
        f"printf '[Service]\\nEnvironment={OFF}\\nExecStart=/bin/true\\n' > {SLURMD}; "
        "systemctl daemon-reload",
        "slurmd.service (Environment)",
    ),
    "its file": (f"echo {OFF} >> /etc/nccl.conf", "/etc/nccl.conf"),
}
MEND = f"rm -f /root/.nccl.conf /home/trainer/.nccl.conf {SLURMD}; systemctl daemon-reload"
# Nothing tells systemd: it remembers the links, and a boot reads the disk.
UNLINK = "find /etc/systemd/system -name 'rdmaprov-roce-qos*' -path '*.wants/*' -delete"
ONE_CLASS = {"roce_qos_tc_percent": {3: 100}}


def validate(fleet, words):
    code, said = fleet.run("validate", "--limit", NODE, "-k", words)
    return code, said


def test_nccl_turned_off_beside_its_file_is_found(lab, fleet):
    words = "nothing_else_is_set or nothing_overrides"
    assert validate(fleet, words)[0] == 0
    for do, place in PLACES.values():
        lab.run(NODE, do)
        code, said = validate(fleet, words)
        assert code == 1, said
        assert f"{NODE} {place}: configured: NCCL_IB_DISABLE is 1" in said
        lab.run(NODE, MEND)


def test_links_lost_on_disk_are_found(lab, fleet):
    lab.run(NODE, UNLINK)
    code, said = validate(fleet, "test_roce_qos_marking and enabled_after_reboot")
    assert code == 1, said
    assert "after reboot: QoS unit is enabled in systemd's memory, not linked on the disk" in said


def test_ets_with_one_weighted_class_converges(fleet):
    variables = fleet.site / "host_vars" / f"{NODE}.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text(yaml.safe_dump(ONE_CLASS))
    one = ("--limit", NODE, "--roles", "roce_qos")
    try:
        assert "1 changed" in fleet.apply(*one)
        assert "1 unchanged" in fleet.apply(*one)
        code, said = validate(fleet, "traffic_class")
        assert code == 0, said
    finally:
        variables.unlink()
