"""nvidia_peermem on a real kernel: refused, loaded, unloaded by a fault, and booted."""

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
WANTED = {"peermem_mode": "nvidia-peermem"}
FILE = "/etc/modules-load.d/rdmaprov-peermem.conf"
CLIENT = "cat /sys/kernel/mm/memory_peers/nv_mem/version"
# The real module is linked to the vendor's ib_core, so that modprobe loads that first. The stand-in
# looks for the symbol when it is loaded, and needs to be told.
VENDOR = """echo vendor > /etc/rdmaprov-lab/driver
echo softdep nvidia_peermem pre: standin_ofed > /etc/modprobe.d/lab-vendor.conf
modprobe standin_ofed
"""


def test_nic_without_dmabuf_is_refused(lab, play):
    assert play.run({"peermem_mode": "dmabuf"}).returncode != 0
    assert "driver does not register dma-buf memory (Operation not supported)" in play.said
    assert lab.call(NODE, f"ls {FILE}").returncode != 0


def test_module_is_loaded_and_survives_a_fault_and_a_boot(lab, play):
    lab.run(NODE, VENDOR)
    assert play.changes(WANTED)
    version = lab.run(NODE, CLIENT)
    lab.must("fault", NODE, "peermem-unloaded")
    assert lab.call(NODE, CLIENT).returncode != 0
    assert play.changes(WANTED)
    assert lab.run(NODE, CLIENT) == version
    lab.must("reboot", NODE)
    assert lab.run(NODE, CLIENT) == version
    assert not play.changes(WANTED)
