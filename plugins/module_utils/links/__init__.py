"""What configures a node's links at boot, and how to have it set what a rail needs."""

from __future__ import annotations

from ..machine import Machine
from ..plan import NotYet, Plan, Refused
from ..rails import Rail
from .ifupdown import Ifupdown
from .manager import Addressing, LinkManager
from .netplan import Netplan
from .networkd import Networkd
from .networkmanager import NetworkManager

__all__ = ["Addressing", "LinkManager", "Links"]

MANAGERS: dict[str, type[LinkManager]] = {
    each.name: each for each in (Netplan, NetworkManager, Networkd, Ifupdown)
}
# SUSE: enabling a manager of its own makes this link, of wicked or of NetworkManager.
_SERVICE_OF_SUSE = "/etc/systemd/system/network.service"


def is_wicked(machine: Machine) -> bool:
    """Return whether SUSE's wicked configures the node's links, which no manager here does."""
    return machine.real(_SERVICE_OF_SUSE).endswith("/wicked.service")


class Links:
    """The link managers of a node, by device: several may run beside each other.

    Args:
        wanted: a manager that the site names, or "auto".
    """

    def __init__(self, machine: Machine, wanted: str) -> None:
        self.machine = machine
        self.wanted = wanted
        self._used: dict[str, LinkManager] = {}

    def of(self, netdev: str) -> LinkManager:
        """Return what manages a device: what the site names, has it now, or could have it.

        Raises:
            NotYet: nothing that is known could.
            Refused: several have it, or one that rdmaprov does not know how to tell.
        """
        if self.wanted != "auto":
            return self._one(self.wanted)
        running = [name for name, each in MANAGERS.items() if each.runs(self.machine)]
        if Netplan.name in running:
            return self._one(Netplan.name)
        having = [name for name in running if self._one(name).has(netdev)]
        if len(having) > 1:
            raise Refused(
                "{}: both {} configure it. Write fabric_link_manager, or remove it from all but "
                "one".format(netdev, " and ".join(having))
            )
        could = [name for name in running if self._one(name).could_have(netdev)]
        if not having and is_wicked(self.machine):
            raise Refused(
                f"{netdev}: wicked configures this node's links, and rdmaprov does not write "
                "wicked's files. Have NetworkManager configure them, the management path first "
                "(systemctl disable wicked, systemctl enable NetworkManager)"
            )
        if not having and not could:
            raise NotYet(
                "{}: no supported link manager manages it ({}). {}".format(
                    netdev, ", ".join(MANAGERS), self._hint()
                )
            )
        return self._one((having or could)[0])

    def _hint(self) -> str:
        """Return what to do where nothing manages a device."""
        manager = self._used.get(NetworkManager.name)
        if isinstance(manager, NetworkManager) and manager.is_stopped:
            return (
                "NetworkManager is installed and does not run: see journalctl -u NetworkManager, "
                "then systemctl start NetworkManager; or write fabric_link_manager"
            )
        return "Write fabric_link_manager"

    def leftovers(self, plan: Plan, rails: list[Rail]) -> None:
        """Have no files of the role fabric for devices that are no rails any more."""
        for manager in {self.of(rail.port).name: self.of(rail.port) for rail in rails}.values():
            manager.leftovers(plan, rails)

    def settle(self, plan: Plan) -> None:
        """Have all that were asked read what was written for them."""
        for manager in self._used.values():
            manager.settle(plan)

    def _one(self, name: str) -> LinkManager:
        if name not in self._used:
            self._used[name] = MANAGERS[name](self.machine)
        return self._used[name]
