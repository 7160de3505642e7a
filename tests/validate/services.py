"""Services of a made-up node: those of the GPU driver, TuneD, and opensm (gpu1 is the master)."""

from collections.abc import Iterable
from pathlib import Path

from tests.validate.fake_node import FakeNode
from tests.validate.hardware import function
from tests.validate.runner import table

DRIVER = "570.133.20"
NVSWITCH = "0000:05:00.0"
_TEXTS = table("healthy.yml")
_CAPTURE = Path(__file__).parents[1] / "fixtures/nvidia-smi/h100-565-idle.txt"


def gpu_services(node: FakeNode, gpus: Iterable[str]) -> None:
    """Have GPUs that their driver runs, an NVSwitch, and the daemons beside them."""
    addresses = list(gpus)
    gpu = _CAPTURE.read_text().partition("\nGPU 00000000:18:00.0\n")[2].partition("    Fabric\n")[0]
    gpu += _TEXTS["fabric"]
    found = "".join(f"GPU 0000{each.upper()}\n{gpu}" for each in addresses)
    node.answer("nvidia-smi -q", f"{_TEXTS['nvidia_smi']}{found}")
    links = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))
    names = [f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n" for n in range(len(addresses))]
    node.answer("nvidia-smi nvlink -s", "".join(head + links for head in names))
    kinds = ("Replay", "Recovery", "CRC")
    errors = "".join(f"\t Link {n}: {kind} Errors: 0\n" for n in range(18) for kind in kinds)
    node.answer("nvidia-smi nvlink -e", "".join(head + errors for head in names))
    function(node, (NVSWITCH,), 0, vendor="0x10de", kind="0x068000")
    for name in ("cuda", "nvidia-ml"):
        library = f"/usr/lib/x86_64-linux-gnu/lib{name}.so"
        node.put(f"{library}.{DRIVER}", "\x7fELF")
        node.link(f"{library}.1", f"{library}.{DRIVER}")


UNIT = "rdmaprov-opensm-rail0.service"


def manager(node: FakeNode, number: int) -> None:
    """Have opensm run as the site's managers do, on the first node as the master."""
    state = "3 SMINFO_MASTER" if number == 1 else "2 SMINFO_STANDBY"
    priority = 15 - number
    node.put("/etc/opensm/rdmaprov-rail0.conf", _TEXTS["opensm"].format(priority=priority))
    node.link(f"/etc/systemd/system/multi-user.target.wants/{UNIT}", f"/etc/systemd/system/{UNIT}")
    node.put("/sys/class/infiniband/mlx5_0/ports/1/lid", f"{number:#x}\n")
    node.answer(
        f"sminfo -C mlx5_0 -P 1 {number:#x}",
        f"sminfo: sm lid {number} sm guid 0xc42a103000000a{number}, activity count 9 priority"
        f" {priority} state {state}\n",
    )
    node.put(
        "/var/log/rdmaprov-opensm-rail0/opensm.log", _TEXTS["master_log"] if number == 1 else ""
    )
