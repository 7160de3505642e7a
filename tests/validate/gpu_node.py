"""NVIDIA's driver and the services beside it on a made-up node."""

from __future__ import annotations

from collections.abc import Iterable

from tests.validate.fake_node import FakeNode
from tests.validate.hardware import function

DRIVER = "570.133.20"
NVSWITCH = "0000:05:00.0"
_HEAD = """\

==============NVSMI LOG==============

Timestamp                                 : Wed Jul 31 11:22:39 2024
Driver Version                            : {version}
CUDA Version                              : 12.8

Attached GPUs                             : {number}
"""
# As in tests/fixtures/nvidia-smi/h100-hgx.txt; the fabric's last lines are of newer drivers.
_GPU = """\
GPU 0000{address}
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
        ClusterUUID                       : 9c6f5af3-53bf-49b5-a436-b66766c413c3
        Health
            Summary                       : Healthy
            Bandwidth                     : Full
            Route Recovery in progress    : False
            Route Unhealthy               : False
            Access Timeout Recovery       : False
            Incorrect Configuration       : None
    Processes                             : None

"""
# Of a unit's ExecStart, as `systemctl show` has it.
_STARTED = "{{ path={0} ; argv[]={0} {1} ; ignore_errors=no ; start_time=[n/a] ; pid=0 }}"


def gpu_services(node: FakeNode, gpus: Iterable[str]) -> None:
    """Have GPUs that their driver runs, an NVSwitch, and the daemons beside them."""
    addresses = list(gpus)
    text = _HEAD.format(version=DRIVER, number=len(addresses))
    text += "".join(_GPU.format(address=each.upper()) for each in addresses)
    node.answer("nvidia-smi -q", text)
    function(node, (NVSWITCH,), 0, vendor="0x10de", kind="0x068000")
    node.answer("nv-fabricmanager --version", f"Fabric Manager version is : {DRIVER}\n")
    node.unit("nvidia-fabricmanager.service", MainPID="710")
    started = _STARTED.format(
        "/usr/bin/nvidia-persistenced", "--user nvidia-persistenced --verbose"
    )
    node.unit("nvidia-persistenced.service", MainPID="711", ExecStart=started)
    nvlsm(node)
    imex(node, ("10.0.0.1", "10.0.0.2"))


def nvlsm(node: FakeNode) -> None:
    """Have what manages NVSwitches over a NIC, which counts where none is on PCI."""
    node.put("/sys/bus/pci/devices/0000:60:00.0/vpd", b"\x82\x0b\0CX7 bridge\x90\x0c\0SMDL=SW_MNG")
    node.put("/proc/720/comm", "nvlsm\n")
    node.put("/etc/rdma/modules/infiniband.conf", "# MADs of userspace\nib_umad\n")


def imex(node: FakeNode, members: tuple[str, ...]) -> None:
    """Have IMEX ready on some nodes, which counts where the site has an NVLink domain."""
    node.put("/etc/nvidia-imex/nodes_config.cfg", "".join(f"{each}\n" for each in members))
    node.unit("nvidia-imex.service", MainPID="712")
    rows = (f"Node #{number}   - {each}   - READY\n" for number, each in enumerate(members))
    node.answer("nvidia-imex-ctl -q", "READY\n")
    node.answer("nvidia-imex-ctl -N", f"Nodes:\n{''.join(rows)}\nDomain State: UP\n")
    node.put("/dev/nvidia-caps-imex-channels/channel0")
    node.put("/etc/modprobe.d/nvidia-imex.conf", "options nvidia NVreg_CreateImexChannel0=1\n")
