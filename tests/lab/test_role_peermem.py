"""nvidia_peermem on a real kernel: refused, explained, loaded, unloaded by a fault, and booted."""

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


def refusal(lab, play, variables):
    """Return what a run says that must fail and leave nothing for a boot."""
    assert play.run(variables).returncode != 0
    assert lab.call(NODE, f"ls {FILE}").returncode != 0
    return play.said


def test_nic_without_dmabuf_is_refused(lab, play):
    said = refusal(lab, play, {"peermem_mode": "dmabuf"})
    assert "driver does not register dma-buf memory (Operation not supported)" in said


@pytest.fixture
def vendor(lab):
    lab.run(NODE, VENDOR)


@pytest.mark.usefixtures("vendor")
def test_module_that_does_not_load_is_explained(lab, play):
    wrong = "/etc/modprobe.d/wrong.conf"
    lab.run(NODE, f"echo options nvidia_peermem peerdirect_support=7 > {wrong}")
    said = refusal(lab, play, WANTED)
    assert "could not insert 'nvidia_peermem': Invalid argument" in said
    assert f"{wrong} sets peerdirect_support to 7, expected 0 or 1" in said


@pytest.mark.usefixtures("vendor")
def test_module_is_loaded_and_survives_a_fault_and_a_boot(lab, play):
    assert play.changes(WANTED)
    version = lab.run(NODE, CLIENT)
    lab.must("fault", NODE, "peermem-unloaded")
    assert lab.call(NODE, CLIENT).returncode != 0
    assert play.changes(WANTED)
    assert lab.run(NODE, CLIENT) == version
    lab.must("reboot", NODE)
    assert lab.run(NODE, CLIENT) == version
    assert not play.changes(WANTED)
