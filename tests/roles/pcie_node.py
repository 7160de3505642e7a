"""A made-up node with a NIC and a GPU below one PCIe switch, and what runs the role on it."""

from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.roles import pcie
from tests.roles import config_space
from tests.roles.fake import FakeMachine, given

NIC, GPU = "0000:1a:00.0", "0000:1b:00.0"
SWITCH = "pci0000:17/0000:17:01.0/0000:18:00.0"
NIC_PORT, GPU_PORT = "0000:19:00.0", "0000:19:04.0"
BALANCING = "/proc/sys/kernel/numa_balancing"
GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
UNIT = "/etc/systemd/system/rdmaprov-pcie.service"
LINK = "/etc/systemd/system/multi-user.target.wants/rdmaprov-pcie.service"


class Node(FakeMachine):
    """A node of two NUMA nodes, with a NIC and a GPU below one switch of the second one."""

    def prepare(self) -> None:
        self.put("/usr/bin/python3")
        self.put("/sys/devices/system/node/node0/cpulist", "0-3\n")
        self.put("/sys/devices/system/node/node1/cpulist", "4-7\n")
        self.put(BALANCING, "1\n")
        self.put("/proc/cmdline", "root=/dev/sda1 ro\n")
        self.put("/proc/sys/kernel/osrelease", "6.1.0\n")
        self.put("/proc/1/comm", "systemd\n")
        for name in ("policy0", "policy4"):
            base = f"/sys/devices/system/cpu/cpufreq/{name}"
            self.put(f"{base}/scaling_available_governors", "performance powersave\n")
            self.put(f"{base}/scaling_governor", "powersave\n")
        self._devices()
        self.interrupt(40, "0-7")
        self.interrupt(41, "5")
        self.programs = {
            "systemctl daemon-reload": "",
            "systemctl enable rdmaprov-pcie.service": self._enable,
        }

    def _devices(self) -> None:
        bridge = config_space.made_up(acs=0x1D)
        config_space.put(self, "pci0000:17/0000:17:01.0", bridge)
        config_space.put(self, SWITCH, config_space.made_up())
        config_space.put(self, f"{SWITCH}/{NIC_PORT}", bridge)
        config_space.put(self, f"{SWITCH}/{GPU_PORT}", bridge)
        where = f"{SWITCH}/{NIC_PORT}/{NIC}"
        config_space.put(self, where, config_space.made_up(512), numa_node="1")
        gpu = f"{SWITCH}/{GPU_PORT}/{GPU}"
        config_space.put(
            self, gpu, config_space.made_up(), vendor="0x10de", **{"class": "0x030200"}
        )
        self.put(f"/sys/devices/{where}/net/ens1/mtu", "1500\n")
        self.link(f"/sys/devices/{where}/net/ens1/device", f"/sys/devices/{where}")
        self.link("/sys/class/net/ens1", f"/sys/devices/{where}/net/ens1")

    def interrupt(self, number: int, affinity: str) -> None:
        self.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/msi_irqs/{number}", "msix\n")
        self.put(f"/proc/irq/{number}/smp_affinity_list", affinity + "\n")

    def affinity(self, number: int) -> str | None:
        return self.value(f"/proc/irq/{number}/smp_affinity_list")

    def redirect(self, address: str) -> int:
        """Return the ACS control bits of a bridge."""
        return config_space.word(self, address, config_space.ACS_CONTROL)

    def boot(self, factory: bytes) -> None:
        Path(self.path(f"/sys/bus/pci/devices/{NIC}/config")).write_bytes(factory)
        self.put(BALANCING, "1\n")
        self.put(GOVERNOR, "powersave\n")
        self.interrupt(40, "0-7")

    def _enable(self, argv: list[str]) -> str:  # noqa: ARG002
        self.link(LINK, UNIT)
        return ""


def made(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(pcie, "architecture", lambda: "x86_64")
    return Node.made(machine.root)


def arguments(**changed: object) -> dict[str, Any]:
    rails = [{"netdev": "ens1", "pci": None, "address": "198.18.0.1/24"}]
    return given("pcie", **{"rails": rails, "acs_redirect": "off", **changed})


def run(node: Node, *, check: bool = False, **changed: object) -> dict[str, Any]:
    return converge(node, pcie, arguments(**changed), check=check)


def said(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["layer"], each["device"], each["setting"]) for each in result["changes"]]


DESCRIPTION = "/etc/rdmaprov/pcie.json"
RULE = "/etc/udev/rules.d/99-rdmaprov-pcie.rules"
PROGRAM = "/usr/local/lib/rdmaprov/pcie"
