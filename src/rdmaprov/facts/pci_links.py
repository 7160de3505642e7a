"""PCIe links on the way from the root port to a device."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdmaprov.facts.devices import PCI
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files, read_files

# PCI Express 1: to this a device that idles slows its link, and a load speeds it up again.
IDLE_GT_S = 2.5
_LINK = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


@dataclass(frozen=True)
class Link:
    """A PCIe link: transfers per second and lanes."""

    gt_s: float  # gigatransfers per second of a lane
    width: int  # lanes

    @property
    def gbps(self) -> float:
        """Return what it carries in one direction, Gb/s, line code taken off, headers not.

        PCI Express base specification: 8b/10b up to 5 GT/s, 128b/130b up to 32, 242/256 from 64.
        """
        code = 0.8 if self.gt_s <= 5 else 128 / 130 if self.gt_s <= 32 else 242 / 256
        return self.gt_s * self.width * code

    @property
    def payload_gbps(self) -> float:
        """Return what it carries of data in one direction, Gb/s.

        A packet of 256 bytes, the usual MaxPayload, has 24 bytes of framing, sequence number,
        header and CRC (PCI Express base specification, 3.0 and later).
        """
        return self.gbps * 256 / (256 + 24)

    def __str__(self) -> str:
        """Return it as lspci has it."""
        return f"{self.gt_s:g} GT/s x{self.width}"


@dataclass(frozen=True)
class Hop:
    """The link above a function: what it runs at, and what both of its ends can do."""

    address: str
    current: Link
    most: Link

    def may_carry(self, gbps: float) -> bool:
        """Return whether it idles, and could carry so much at full speed over the same lanes."""
        full = Link(self.most.gt_s, self.current.width)
        return self.current.gt_s <= IDLE_GT_S and full.payload_gbps >= gbps


def hops(host: Host, path: Sequence[str]) -> tuple[Hop, ...]:
    """Return the links on the way from the root port to a device.

    Args:
        path: PCI addresses, the root port first, the device last.

    Raises:
        CouldNotTell: a function does not show its link.
    """
    files = read_files(host, *(f"{PCI}/{each}/{name}" for each in path for name in _LINK))
    return pair_hops(path, {each: _links(files, each) for each in path})


def pair_hops(path: Sequence[str], links: Mapping[str, tuple[Link, Link]]) -> tuple[Hop, ...]:
    """Return the links on the way from the root port to a device.

    Args:
        path: PCI addresses, the root port first, the device last.
        links: what the link of each runs at, and what it can do.
    """
    # Root port and function, or also the two ports of each switch: pairs of ends.
    uppers, lowers = (path[::2], path[1::2]) if len(path) % 2 == 0 else (path, path)
    return tuple(
        _hop(links[upper][1], lower, *links[lower])
        for upper, lower in zip(uppers, lowers, strict=True)
    )


def _hop(above: Link, lower: str, current: Link, most: Link) -> Hop:
    return Hop(lower, current, Link(min(most.gt_s, above.gt_s), min(most.width, above.width)))


def _links(files: Files, address: str) -> tuple[Link, Link]:
    links = []
    for kind in ("current", "max"):
        base = f"{PCI}/{address}/{kind}_link_"
        speed = re.match(r"(\d+(?:\.\d+)?) GT/s", files.must(base + "speed"))
        width = files.number(base + "width")
        if speed is None or width <= 0:
            shown = f"{files.must(base + 'speed')} x{width}"
            raise CouldNotTell(f"{address}: its PCIe link is {shown} ({base}speed)")
        links.append(Link(float(speed[1]), width))
    return links[0], links[1]


def narrowest(path: Sequence[Hop]) -> Hop:
    """Return the hop that carries the least."""
    return min(path, key=lambda hop: hop.current.gbps)
