"""A fleet whose nodes have rails that reach each other: one bridge for each network plane."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.unit.helpers.fleet import Fleet

RAILS = 2
SITE = {
    "fabric_kind": "roce",
    "fabric_link_gbps": 10,
    "fabric_mtu_bytes": 4200,
    "ofed_source": "inbox",
    "torch_runtime_kind": "interpreter",
}


class RailFleet(Fleet):
    """Nodes n000 and on, each with the rails plane0, plane1, ... in 198.18.RAIL.0/24.

    Args:
        count: of nodes, at most 250.
        python: the interpreter with torch that they share.
    """

    def __init__(self, count: int, python: str = sys.executable) -> None:
        super().__init__(count)
        self._python = python

    def _inventory(self) -> dict[str, Any]:
        inventory: dict[str, Any] = super()._inventory()
        for index, host in enumerate(inventory["nodes"]["hosts"].values()):
            host["fabric_rails"] = [
                {"netdev": f"plane{rail}", "address": f"{rail_address(rail, index)}/24"}
                for rail in range(RAILS)
            ]
        inventory["nodes"]["vars"].update(SITE, torch_runtime_python=self._python)
        return inventory

    def __enter__(self) -> RailFleet:
        """Start the nodes, then cable their rails."""
        super().__enter__()
        try:
            for rail in range(RAILS):
                _ip("link", "add", f"rdmaplane{rail}", "type", "bridge")
                _ip("link", "set", f"rdmaplane{rail}", "up")
                for index in range(self.count):
                    self._cable(rail, index)
        except BaseException:
            self._stop()
            raise
        return self

    def _cable(self, rail: int, index: int) -> None:
        near, far, space = f"rdmaw{rail}n{index}", f"plane{rail}", f"rdmaprov{index}"
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        mtu = str(SITE["fabric_mtu_bytes"])
        _ip("link", "set", near, "mtu", mtu, "master", f"rdmaplane{rail}", "up")
        _ip("-n", space, "link", "set", far, "mtu", mtu, "up")
        _ip("-n", space, "address", "add", f"{rail_address(rail, index)}/24", "dev", far)

    def _stop(self) -> None:
        for rail in range(RAILS):
            for index in range(self.count):
                _ip("link", "del", f"rdmaw{rail}n{index}", quiet=True)
            _ip("link", "del", f"rdmaplane{rail}", quiet=True)
        super()._stop()


def rail_address(rail: int, index: int) -> str:
    """Return the address of a node's rail."""
    return f"198.18.{rail}.{index + 1}"


def _ip(*words: str, quiet: bool = False) -> None:
    subprocess.run(["ip", *words], check=not quiet, stderr=subprocess.DEVNULL if quiet else None)
