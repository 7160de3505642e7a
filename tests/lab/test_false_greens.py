"""What a suite can miss: links of units lost on the disk, one ETS class."""

import pytest
import yaml

pytestmark = pytest.mark.lab

STATE, TOUCHES = "provisioned", ("node1",)
NODE = "node1"
# Nothing tells systemd: it remembers the links, and a boot reads the disk.
UNLINK = "find /etc/systemd/system -name 'rdmaprov-roce-qos*' -path '*.wants/*' -delete"
ONE_CLASS = {"roce_qos_tc_percent": {3: 100}}


def validate(fleet, words):
    code, said = fleet.run("validate", "--limit", NODE, "-k", words)
    return code, said


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
