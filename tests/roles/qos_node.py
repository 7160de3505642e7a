"""A made-up node with a RoCE rail, its service manager, and what the role is given."""

from typing import Any

from plugins.module_utils.converge import converge
from plugins.module_utils.roles import roce_qos
from tests.roles.card import Port, Tools
from tests.roles.fake import FakeMachine, given

UNIT = "rdmaprov-roce-qos@ens1.service"
CM = "/sys/kernel/config/rdma_cm/rocep24s0/ports/1/"
ECN = "/sys/class/net/ens1/ecn/"
CC = "/sys/kernel/debug/mlx5/0000:18:00.0/cc_params/"
TCLASS = "/sys/class/infiniband/rocep24s0/tc/1/traffic_class"
DESCRIPTION = "/etc/rdmaprov/roce_qos/ens1.json"


class QosNode(FakeMachine):
    """One rail, ens1, on Linux's own driver, in the factory state; `units` by name."""

    def prepare(self) -> None:
        self.nic("ens1", pci="0000:18:00.0", rdma="rocep24s0", index=3)
        self.nic("eno1", pci="0000:01:00.0", index=2)
        for netdev in ("ens1", "eno1"):
            self.put(f"/sys/class/net/{netdev}/type", "1\n")
        self.load_cm()
        self.tools = Tools(self, ["ens1"])
        self.units: dict[str, dict[str, str]] = {}
        default = '[{"dst":"default","gateway":"10.0.2.2","dev":"eno1"}]'
        self.programs.update(
            {
                "systemctl show": self._show,
                "systemctl daemon-reload": "",
                "systemctl enable": lambda argv: self._enable(argv[2]),
                "systemctl disable": lambda argv: self._unit(
                    argv[-1], UnitFileState="disabled", ActiveState="inactive"
                ),
                "systemctl restart": lambda argv: self._unit(argv[2], ActiveState="active"),
                "systemctl mask": lambda argv: self._mask(argv[3:]),
                "udevadm control": "",
                "ip -j -4 route show default": default,
                "ip -j -6 route show default": "",
            }
        )

    @property
    def port(self) -> Port:
        return self.tools.ports["ens1"]

    def load_cm(self) -> None:
        """Have rdma_cm loaded, with its directory of the rail open."""
        self.put(CM + "default_roce_tos", "0\n")
        self.put(CM + "default_roce_mode", "RoCE v2\n")

    def vendor(self) -> None:
        """Have what the vendor's driver shows, as it starts."""
        for end in ("roce_np", "roce_rp"):
            for priority in range(8):
                self.put(f"{ECN}{end}/enable/{priority}", "1\n")
        self.put(ECN + "roce_np/cnp_dscp", "4\n")
        self.put(ECN + "roce_np/cnp_802p_prio", "6\n")
        self.put(ECN + "roce_rp/rpg_ai_rate", "5\n")
        self.put(TCLASS, "")

    def _show(self, argv: list[str]) -> str:
        return "\n".join(
            "".join(
                f"{name}={value}\n" for name, value in {"Id": unit, **self._known(unit)}.items()
            )
            for unit in argv[3:]
        )

    def _known(self, unit: str) -> dict[str, str]:
        return self.units.get(unit, {"ActiveState": "inactive", "UnitFileState": ""})

    def _enable(self, unit: str) -> str:
        device = unit.partition("@")[2].replace(".service", ".device")
        for target in ("multi-user.target", f"sys-subsystem-net-devices-{device}"):
            self.put(f"/etc/systemd/system/{target}.wants/{unit}")
        return self._unit(unit, UnitFileState="enabled")

    def _unit(self, unit: str, **changed: str) -> str:
        self.units[unit] = {**self._known(unit), **changed}
        return ""

    def _mask(self, units: list[str]) -> str:
        for unit in units:
            self._unit(unit, UnitFileState="masked", ActiveState="inactive")
        return ""


def arguments(**changed: Any) -> dict[str, Any]:
    own = {
        "kind": "roce",
        "rails": [{"pci": "0000:18:00.0"}],
        "dscp_priorities": {"26": 3, "48": 6},
        "pfc_priorities": [3],
        "priority_tc": {"3": 3, "6": 6},
        "tc_strict": [6],
        "tc_percent": {"0": 50, "3": 50},
        "ecn_priorities": [3],
        "tos": 106,
        "nccl_traffic_class": 106,
    }
    return given("roce_qos", **{**own, **changed})


MAP = {dscp: dscp >> 3 for dscp in range(64)}


def run(node: QosNode, **changed: Any) -> dict[str, Any]:
    return converge(node, roce_qos, arguments(**changed), check=False)


def settings(result: dict[str, Any]) -> list[str]:
    return [change["setting"] for change in result["changes"]]


def layers(result: dict[str, Any]) -> set[str]:
    return {change["layer"] for change in result["changes"]}
