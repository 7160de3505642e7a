"""The verdict on ACS redirect of PCIe bridges, between a GPU and a NIC, another GPU or a drive."""

from collections.abc import Sequence

from testinfra.host import Host

from rdmaprov.facts import pci
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import Setting


def require_acs_redirect_off(host: Host, node: Node, bridges: Sequence[str]) -> None:
    """Fail for the first of these bridges that redirects traffic between its ports to the root.

    Raises:
        CouldNotTell: a bridge's configuration space cannot be read.
    """
    for address, space in pci.config_spaces(host, bridges).items():
        where = f"lspci -s {address} -vv (ACSCtl)"
        setting = Setting(node, address, "ACS redirect", "pcie_acs_redirect", where)
        setting.require(pci.acs_redirects(space, address), ())
