"""A node with mlx5_core loaded, with the arguments that the role mlx5 gets."""

import json
from pathlib import Path

from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.roles import mlx5
from tests.roles.fake import FakeMachine, given

FIXTURES = Path(__file__).parents[1] / "fixtures" / "modinfo"
CORE = "/sys/module/mlx5_core"
IMAGE = "/boot/initrd.img-6.1.0"
KERNEL = "6.1.0"


def with_mlx5(machine: FakeMachine) -> FakeMachine:
    machine.put("/proc/sys/kernel/osrelease", KERNEL)
    machine.put(f"/lib/modules/{KERNEL}/modules.dep")
    machine.put("/etc/modprobe.d/mlx4.conf", "# options mlx4_core debug_level=1\n")
    machine.put(f"{CORE}/initstate", "live\n")
    machine.put(f"{CORE}/refcnt", "0\n")
    put_parameter(machine, "mlx5_core", "debug_mask", "0", 0o644)
    put_parameter(machine, "mlx5_core", "prof_sel", "2", 0o444)
    machine.put(IMAGE, json.dumps({"modules": ["ext4"], "conf": None}))

    def unpack(argv: list[str]) -> str:
        image = json.loads(Path(argv[1]).read_text())
        tree = Path(argv[2], "main")
        tree.joinpath("etc").mkdir(parents=True)
        for module in image["modules"]:
            file = Path(argv[2], "early3/usr/lib/modules", f"{module}.ko.xz")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        if image["conf"] is not None:
            (tree / "etc/modprobe.d").mkdir()
            (tree / "etc/modprobe.d/rdmaprov.conf").write_text(image["conf"])
        return ""

    def update(argv: list[str]) -> str:
        path = Path(machine.path("/boot/initrd.img-" + argv[-1]))
        image = json.loads(path.read_text())
        path.write_text(json.dumps({**image, "conf": machine.read(mlx5.OWN)}))
        return ""

    machine.programs = {
        "modinfo -p nothing": CommandFailed(["modinfo"], 1, "Module nothing not found."),
        "unmkinitramfs": unpack,
        "update-initramfs": update,
        "sync -f": "",
        "ip -j -4 route show default": '[{"dst":"default","dev":"eno1"}]',
        "ip -j -6 route show default": "",
        "rdma -j resource show": "[]",
    }
    for file in FIXTURES.glob("*.txt"):
        machine.programs[f"modinfo -p {file.stem}"] = file.read_text()
    return machine


def put_parameter(machine: FakeMachine, module: str, name: str, value: str, mode: int) -> None:
    path = f"/sys/module/{module}/parameters/{name}"
    machine.put(path, value + "\n")
    Path(machine.path(path)).chmod(mode)


def change_parameter(machine: FakeMachine, module: str, name: str, value: str) -> None:
    path = Path(machine.path(f"/sys/module/{module}/parameters/{name}"))
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_text(value + "\n")
    path.chmod(mode)


def arguments(parameters: object = None, **changed: object) -> dict[str, object]:
    wanted = {"mlx5_core": {"debug_mask": 1}} if parameters is None else parameters
    own = {"kind": "roce", "rails": [{"netdev": "ens1"}], "module_parameters": wanted}
    return given("mlx5", **{**own, **changed})


def builds(node: FakeMachine) -> list[str]:
    return [line for line in node.ran if line.startswith("update-initramfs")]
