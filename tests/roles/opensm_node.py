"""A made-up node with an InfiniBand port on which a subnet manager can run."""

import re
from typing import Any

from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine, given

GUID = 0xB8CEF60300A1B2C4
OTHER = 0x248A070300F0F0F0
UNIT = "/etc/systemd/system/rdmaprov-opensm-rail0.service"
CONFIGURATION = "/etc/opensm/rdmaprov-rail0.conf"


class OpensmNode(FakeMachine):
    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self.units: dict[str, dict[str, str]] = {}
        self.masters: list[tuple[int, int, int]] = []  # GUID, LID, priority; the master first
        self.descriptions: dict[int, str] = {}

    def prepare(self) -> None:
        port = "/sys/class/infiniband/mlx5_0/ports/1"
        self.put(f"{port}/link_layer", "InfiniBand\n")
        self.put(f"{port}/gids/0", "fe80:0000:0000:0000:b8ce:f603:00a1:b2c4\n")
        self.link("/sys/class/infiniband/mlx5_0/device", "/sys/devices/pci0000:17/0000:18:00.0")
        self.put("/sys/devices/pci0000:17/0000:18:00.0/vendor", "0x15b3\n")
        self.programs = {
            "systemctl show": self._show,
            "systemctl mask": lambda argv: self._unit(argv[2], LoadState="masked"),
            "systemctl stop": self._stop,
            "systemctl enable": lambda argv: self._unit(argv[2], UnitFileState="enabled"),
            "systemctl disable --now": self._disable,
            "systemctl restart": self._restart,
            "systemctl daemon-reload": self._reload,
            "sminfo -C mlx5_0 -P 1": self._sminfo,
            "saquery -C mlx5_0 -P 1 SMIR": self._saquery,
            "smpquery -C mlx5_0 -P 1 nodedesc": self._nodedesc,
            "opensm": "",
        }

    def install(self) -> None:
        """Have no program of opensm yet, and apt, which brings them and starts opensm."""
        brought = {
            name: self.programs.pop(name)
            for name in [*self.programs]
            if name.split()[0] in ("opensm", "sminfo", "saquery", "smpquery")
        }

        def bring(_argv: list[str]) -> str:
            self.programs.update(brought)
            if self.units.get("opensm.service", {}).get("LoadState") != "masked":
                self._unit("opensm.service", LoadState="loaded", ActiveState="active")
            return ""

        quiet = "env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get"
        self.programs |= {
            "dpkg-query": "",
            "apt-get": "",
            quiet: lambda argv: bring(argv) if "install" in argv else "",
            "apt-cache madison": "opensm | 3.3.23 | repo\ninfiniband-diags | 44.0 | repo\n",
        }

    def _unit(self, name: str, **values: str) -> str:
        self.units.setdefault(name, {}).update(values)
        return ""

    def _show(self, argv: list[str]) -> str:
        blocks = []
        for name in argv[3:]:
            values = {"LoadState": "not-found", **self.units.get(name, {})}
            if name.startswith("rdmaprov") and self.exists(f"/etc/systemd/system/{name}"):
                values["LoadState"] = "loaded"
            blocks.append("".join(f"{key}={value}\n" for key, value in values.items()))
        return "\n".join(blocks)

    def _reload(self, _argv: list[str]) -> str:
        for values in self.units.values():
            values.pop("NeedDaemonReload", None)
        return ""

    def _stop(self, argv: list[str]) -> str:
        self.masters = [each for each in self.masters if each[0] != GUID]
        return self._unit(argv[2], ActiveState="inactive")

    def _disable(self, argv: list[str]) -> str:
        self._stop(argv)
        return self._unit(argv[3], UnitFileState="disabled", ActiveState="inactive", MainPID="0")

    def _restart(self, argv: list[str]) -> str:
        text = self.read(f"/etc/systemd/system/{argv[2]}") or ""
        self.put("/proc/7/environ", "\0".join(re.findall(r"^Environment=(.*)$", text, re.M)) + "\0")
        priority = re.search(r"^sm_priority (\d+)$", self.read(CONFIGURATION) or "", re.M)
        assert priority, "opensm would start with its default priority"
        self.masters = [each for each in self.masters if each[0] != GUID]
        self.masters.append((GUID, 1, int(priority[1])))
        self.masters.sort(key=lambda each: -each[2])
        return self._unit(argv[2], ActiveState="active", MainPID="7")

    def _sminfo(self, _argv: list[str]) -> str:
        if not self.masters:
            raise CommandFailed(["sminfo"], 255, "sminfo: iberror: failed: query")
        guid, lid, priority = self.masters[0]
        return (
            f"sminfo: sm lid {lid} sm guid {guid:#x}, activity count 9 priority {priority} "
            "state 3 SMINFO_MASTER\n"
        )

    def _saquery(self, _argv: list[str]) -> str:
        return "".join(
            f"SMInfoRecord dump:\n\t\tRID\n\t\tLID...................{lid}\n\t\tSMInfo dump:\n"
            f"\t\tGUID..................{guid:#018x}\n\t\tPriority..............{priority}\n"
            for guid, lid, priority in self.masters
        )

    def _nodedesc(self, argv: list[str]) -> str:
        return f"Node Description:........{self.descriptions.get(int(argv[-1]), '')}\n"


def arguments(**changed: object) -> dict[str, Any]:
    own = {
        "hosts": ["ib01", "ib02"],
        "node": "ib01",
        "rails": [{"pci": "0000:18:00.0"}],
        "engines": ["ftree", "updn"],
        "root_guids": ["0xb8cef603000000a1"],
        "partition_keys": ["0x8001", "0x0002", "0xffff"],
        "partitions": ["compute=0x8001, ipoib : ALL=full;"],
        "settings": {"use_ucast_cache": True},
    }
    return given("subnet_manager", **{**own, **changed})
