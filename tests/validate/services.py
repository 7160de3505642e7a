"""Services of a made-up node: those of the GPU driver, TuneD, and opensm (gpu1 is the master)."""

from collections.abc import Iterable
from pathlib import Path

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
# As in tests/fixtures/nvidia-smi: a GPU of h100-565-idle.txt, and newer drivers' lines of a fabric.
_CAPTURE = Path(__file__).parents[1] / "fixtures/nvidia-smi/h100-565-idle.txt"
_FABRIC = """\
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


def kernel_log(node: FakeNode) -> None:
    """Have the log of a whole boot, with what needs no hand: a program's error, a flap."""
    node.answer(
        "journalctl -k -b -o short-monotonic --no-hostname --no-pager -q",
        "[    0.000000] kernel: Linux version 6.8.0-60-generic\n"
        "[    9.100000] kernel: mlx5_core 0000:18:00.0: firmware version: 28.43.2026\n"
        "[    9.900000] kernel: NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64\n"
        "[   12.000000] kernel: mlx5_core 0000:18:00.0 ens1: Link down\n"
        "[   20.000000] kernel: NVRM: Xid (PCI:0000:19:00): 43, pid=7, name=python3\n",
    )


def gpu_services(node: FakeNode, gpus: Iterable[str]) -> None:
    """Have GPUs that their driver runs, an NVSwitch, and the daemons beside them."""
    addresses = list(gpus)
    text = _HEAD.format(version=DRIVER, number=len(addresses))
    gpu = _CAPTURE.read_text().partition("\nGPU 00000000:18:00.0\n")[2].partition("    Fabric\n")[0]
    text += "".join(f"GPU 0000{each.upper()}\n{gpu}{_FABRIC}" for each in addresses)
    node.answer("nvidia-smi -q", text)
    links = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
    names = [f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n" for n in range(len(addresses))]
    node.answer("nvidia-smi nvlink -s", "".join(head + links for head in names))
    kinds = ("Replay", "Recovery", "CRC")
    rows = (f"\t Link {n}: {kind} Errors: 0\n" for n in range(18) for kind in kinds)
    errors = "".join(rows)
    node.answer("nvidia-smi nvlink -e", "".join(head + errors for head in names))
    function(node, (NVSWITCH,), 0, vendor="0x10de", kind="0x068000")
    node.answer("nv-fabricmanager --version", f"Fabric Manager version is : {DRIVER}\n")
    node.unit("nvidia-fabricmanager.service", MainPID="710")
    started = _STARTED.format(
        "/usr/bin/nvidia-persistenced", "--user nvidia-persistenced --verbose"
    )
    node.unit("nvidia-persistenced.service", MainPID="711", ExecStart=started)
    for name in ("cuda", "nvidia-ml"):
        library = f"/usr/lib/x86_64-linux-gnu/lib{name}.so"
        node.put(f"{library}.{DRIVER}", "\x7fELF")
        node.link(f"{library}.1", f"{library}.{DRIVER}")
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


# TuneD sets vm.swappiness again as /etc/sysctl.d says it.
TUNED = """\
[main]
summary=Nodes of ours
include=hpc

[cpu]
governor=performance|schedutil

[sysctl]
vm.swappiness = 60
vm.dirty_ratio=${f:strip: 40}

[bootloader]
cmdline_ours=+audit=0
"""


def tuned(node: FakeNode) -> None:
    """Have TuneD with a profile that sets nothing else than the site."""
    node.unit("tuned.service", MainPID="720")
    node.put("/etc/tuned/active_profile", "node-of-ours\n")
    node.put("/etc/tuned/tuned-main.conf", "daemon = 1\n# reapply_sysctl = 0\nreapply_sysctl = 1\n")
    node.put("/etc/tuned/profiles/node-of-ours/tuned.conf", TUNED)
    base = "/usr/lib/tuned/hpc/tuned.conf"
    node.put(base, "[cpu]\ngovernor=schedutil\n\n[sysctl]\nkernel.numa_balancing=0\n")


UNIT = "rdmaprov-opensm-rail0.service"
DIGEST = "0123456789abcdef"
CONFIGURATION = """\
# Written by rdmaprov (subnet_manager); changes here are lost.
guid 0x0c42a103000000a0
sm_priority {priority}
routing_engine ftree,updn
partition_config_file /etc/opensm/rdmaprov-partitions.conf
log_file /var/log/rdmaprov-opensm-rail0/opensm.log
sminfo_polling_timeout 1000
polling_retry_number 3
log_max_size 100
qos FALSE
"""
LOG = """\
Nov 25 01:00:00 000001 [7F00] 0x80 -> Entering MASTER state
Nov 25 01:00:00 000002 [7F00] 0x02 -> osm_ucast_mgr_process: ftree tables configured on all switches
Nov 25 01:00:00 000003 [7F00] 0x80 -> SUBNET UP
"""


def manager(node: FakeNode, number: int) -> None:
    """Have opensm run as the site's managers do, on the first node as the master."""
    state = "3 SMINFO_MASTER" if number == 1 else "2 SMINFO_STANDBY"
    priority = 15 - number
    node.put("/etc/opensm/rdmaprov-rail0.conf", CONFIGURATION.format(priority=priority))
    node.put("/etc/opensm/rdmaprov-partitions.conf", "Default=0x7fff, ipoib : ALL=full;\n")
    node.put(
        f"/etc/systemd/system/{UNIT}", f"[Service]\nEnvironment=RDMAPROV_CONFIGURATION={DIGEST}\n"
    )
    node.link(f"/etc/systemd/system/multi-user.target.wants/{UNIT}", f"/etc/systemd/system/{UNIT}")
    node.unit(UNIT, MainPID="730")
    node.unit("opensm.service", LoadState="masked", ActiveState="inactive", UnitFileState="masked")
    node.put("/proc/730/environ", f"PATH=/bin\0RDMAPROV_CONFIGURATION={DIGEST}\0")
    node.put("/proc/730/comm", "opensm\n")
    node.put("/sys/class/infiniband/mlx5_0/ports/1/lid", f"{number:#x}\n")
    node.answer(
        f"sminfo -C mlx5_0 -P 1 {number:#x}",
        f"sminfo: sm lid {number} sm guid 0xc42a103000000a{number}, activity count 9 priority"
        f" {priority} state {state}\n",
    )
    node.put("/var/log/rdmaprov-opensm-rail0/opensm.log", LOG if number == 1 else "")
