"""What the nodes of a made-up fleet answer to node/reader.py's verbs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.madeup.fleet import MadeUpFleet

from rdmaprov.node.serials import MODULE_KEYS
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError, NodeUnreachable

MANAGEMENT = "eno1"
LLDP = Path(__file__).parents[1] / "fixtures/lldp/lldpctl-1.0.16.json"


class MadeUpNodes:
    def __init__(self, fleet: MadeUpFleet) -> None:
        self._fleet = fleet

    def run_all(self, commands: Mapping[str, Command]) -> dict[str, Answer | NodeError]:
        self._fleet.pass_time(lambda clock: clock.question_s)
        return {name: self._answer(name, command) for name, command in commands.items()}

    def _answer(self, name: str, command: Command) -> Answer | NodeError:
        node = self._fleet.number_of[name]
        if node in self._fleet.condition.unreachable:
            return NodeUnreachable(f"{name}: no route to host", f"Check {name} on its console")
        try:
            asked = json.loads(command.given or b"{}")
        except ValueError:
            return Answer(0, "", "")
        verb = asked.get("verb", "") if isinstance(asked, dict) else ""
        answer = getattr(self, f"_answer_{verb}", None)
        return Answer(0, json.dumps(answer(node, asked)) if answer else "{}", "")

    def _answer_counters(self, node: int, _asked: Mapping[str, Any]) -> dict[str, Any]:
        fleet = self._fleet
        sockets = int(fleet.counters.socket_bytes[node])
        return {
            "time": fleet.now_s(),
            "rails": [self._rail(node, rail) for rail in range(fleet.shape.rails)],
            "others": {MANAGEMENT: 10_000_000 + sockets},
        }

    def _rail(self, node: int, rail: int) -> dict[str, Any]:
        is_up = bool(self._fleet.condition.link_up[node, rail])
        return {
            "netdev": f"rail{rail}",
            "there": True,
            "carrier": is_up,
            "addresses": [rail_address(rail, node)],
            "rdma": f"mlx5_{rail}",
            "state": "ACTIVE" if is_up else "DOWN",
            "counters": self._fleet.counters.port(node, rail),
        }

    def _answer_paths(self, _node: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return that there is no perftest."""
        port = {"layer": "InfiniBand", "rate": "", "gid": -1, "path": [], "numa": -1}
        none = {"there": False, "help": []}
        return {
            "programs": dict.fromkeys(asked["programs"], none),
            "peermem": True,
            "numa": [0, 1],
            "rails": [{"device": rail["device"], **port} for rail in asked["rails"]],
            "gpus": [],
            "configs": {},
        }

    def _answer_preflight(self, node: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        fleet = self._fleet
        condition, memory = fleet.condition, fleet.shape.memory_gib << 10
        busy = condition.foreign_process[node].any()
        gpus = [
            {
                "index": str(gpu),
                "name": "NVIDIA H100 80GB HBM3",
                "total_mib": str(memory),
                "free_mib": str(memory // 4 if busy else memory - 500),
            }
            for gpu in range(fleet.shape.gpus)
            if condition.has_gpu[node, gpu]
        ]
        versions = {"python": "3.12.3", "torch": "2.9.0", "nccl": "2.27.5"}
        addresses = {f"rail{rail}": [rail_address(rail, node)] for rail in range(fleet.shape.rails)}
        return {
            **self._answer_counters(node, asked),
            "torch": {**versions, **condition.versions.get(node, {})},
            "gpus": {"gpus": gpus, "processes": ["4711, python3"] if busy else [], "error": ""},
            "port": 29500,
            "addresses": {MANAGEMENT: [management_address(node)], **addresses},
            "hostname": fleet.shape.names[node],
            "boot_id": self.boot_id(node),
            "identity": (own := self._identity(node)),
            "serials": {g["pci"]: f"165{node:04}{n:03}" for n, g in enumerate(own["gpus"])},
            "labels": [self._label(node, *each) for each in enumerate(own["rails"])],
            "lldp": json.dumps(json.loads(LLDP.read_text())),
        }

    def _label(self, node: int, rail: int, nic: Mapping[str, str]) -> dict[str, Any]:
        module = {**dict.fromkeys(MODULE_KEYS, ""), "port": nic["netdev"], "read": "ethtool -m"}
        module |= {"serial": f"CBL{node:04}{rail}", "date": "__", "revision": "A"}
        card = {"part": "MCX75310AAS-NEAT", "serial": f"MT{nic['guid'][-9:].replace(':', '')}"}
        return {**card, "why": "", "modules": [module]}

    def _identity(self, node: int) -> dict[str, Any]:
        shape, condition = self._fleet.shape, self._fleet.condition
        machine = {"vendor": "Made-up", "product": "G8", "bios": "1.2", "uuid": f"uuid-{node}"}
        return {
            "machine": {**machine, "serial": f"CHS{node:04}", "board_serial": f"BRD{node:04}"},
            "rails": [
                {
                    "netdev": f"rail{rail}",
                    "rdma": f"mlx5_{rail}",
                    "pci": f"0000:{0x80 + rail:02x}:00.0",
                    "guid": condition.moved.get((node, rail), f"9803:9b03:{node:04x}:{rail:04x}"),
                    "board": "MT_0000000838",
                    "firmware": "28.43.1014",
                }
                for rail in range(shape.rails)
            ],
            "gpus": [
                {
                    "pci": f"0000:{0x10 + 8 * gpu:02x}:00.0",
                    "model": "NVIDIA H100 80GB HBM3",
                    "uuid": f"GPU-{node:08x}-{gpu:04x}",
                    "vbios": "96.00.99.00.01",
                    "firmware": "570.86.15",
                }
                for gpu in range(shape.gpus)
                if condition.has_gpu[node, gpu]
            ],
            "versions": dict.fromkeys(("system", "amdgpu", "mlx5"), "")
            | {"kernel": "6.8.0-64-generic", "nvidia": "570.86.15"},
        }

    def boot_id(self, node: int) -> str:
        return f"{node:08x}-0000-4000-8000-{self._fleet.boots[node]:012x}"

    def _answer_log(self, node: int, _asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"log": self._fleet.condition.kernel_log.get(node, []), "lacks": ""}

    def _answer_reach(self, node: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        found = [self._try(node, target) for target in asked["targets"]]
        return {
            "reach": [why for why, _ in found],
            "own": [own for _, own in found],
            # What has no route on its own subnet has no answer to ARP.
            "neighbors": [
                {"state": "FAILED" if why else "REACHABLE", "mac": ""} for why, _ in found
            ],
            "pings": [not why for why, _ in found],
        }

    def _try(self, node: int, target: Mapping[str, str]) -> tuple[str, str]:
        """Return why a connection fails, and the address that it comes from."""
        device = target["device"]
        if not device.startswith("rail"):
            return "", management_address(node)
        rail, fleet = int(device.removeprefix("rail")), self._fleet
        far_rail, far = parse_address(target["address"])
        ends = ((node, rail), (far, far_rail))
        up = all(fleet.condition.link_up[end] for end in ends)
        # Each rail is a network of its own: behind a leaf of another rail, nothing answers.
        same = all(fleet.condition.switch_of[end] % fleet.shape.rails == rail for end in ends)
        return ("" if up and same else "No route to host"), rail_address(rail, node)


def rail_address(rail: int, node: int) -> str:
    """Return a port's address: 10.(rail).(node), a /16 for each rail."""
    return f"10.{100 + rail}.{node // 250}.{node % 250 + 1}"


def management_address(node: int) -> str:
    return f"10.10.{node // 250}.{node % 250 + 1}"


def parse_address(address: str) -> tuple[int, int]:
    _, rail, high, low = (int(word) for word in address.split("."))
    return rail - 100, high * 250 + low - 1
