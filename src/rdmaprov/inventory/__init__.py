"""The site: loaded once, typed, with the position of every value.

>>> fleet = load_site(Path("inventory/prod"))  # doctest: +SKIP
>>> fleet.nodes[0].get("fabric_mtu_bytes")  # doctest: +SKIP
9000
"""

from rdmaprov.inventory.load import SiteError, load_site
from rdmaprov.inventory.model import Fleet, Node, Rail

__all__ = ["Fleet", "Node", "Rail", "SiteError", "load_site"]
