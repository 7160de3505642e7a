"""The site: loaded once, typed, with the position of every value.

>>> fleet = load_site(Path("inventory/prod"))  # doctest: +SKIP
>>> fleet.nodes[0].get("fabric_mtu_bytes")  # doctest: +SKIP
9000
"""

from typing import TYPE_CHECKING

from rdmaprov.inventory.errors import SiteError
from rdmaprov.inventory.model import Fleet, Node, Rail

if TYPE_CHECKING:
    from rdmaprov.inventory.load import load_site

__all__ = ["Fleet", "Node", "Rail", "SiteError", "load_site"]


def __getattr__(name: str) -> object:
    """Import Ansible when a site is loaded with it."""
    if name == "load_site":
        from rdmaprov.inventory.load import load_site

        return load_site
    raise AttributeError(name)
