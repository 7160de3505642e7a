"""What ibv_devinfo, ibstat and ibstatus say of a host's RDMA ports.

The words are those of rdma-core, libibverbs/examples/devinfo.c and infiniband-diags/ibstat.c.
None names its host, nor says which of its ports are rails: one that is down may be a spare one,
unless most cards of its model have a link, which is how `discover` chooses rails, too.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.subnet.names import natural
from rdmaprov.words import quantity, some

_DEVICE = re.compile(r"^(?:hca_id:\s+(\S{1,64})|CA:? '([^'\n]{1,64})')\s*$")
_PORT = re.compile(
    r"^(?:Infiniband device '([^'\n]{1,64})' port (?=\d+ status:)|\s*(?:port:\s+|Port )"
    r"(?=\d+:?\s*$))(\d{1,3})\b"
)
_FIELD = re.compile(r"^\s*([A-Za-z_]{1,24}(?: [A-Za-z]{1,16}){0,2}):\s+(.{1,64}?)\s*$")
_CODE = re.compile(r"^\d: ")  # as ibstatus has before a state
_SPEED = re.compile(r"\d{1,3}(?:\.\d)?")
_MOST_PORTS = 4096
_SMALL_MTU = 1024  # what fits into the usual 1,500 bytes of Ethernet
_INITS = {"init", "initializing"}
# PCI device ids: drivers/net/ethernet/mellanox/mlx5/core/main.c: mlx5_core_pci_table, and mlx4's.
_MODELS = {
    "4099": "ConnectX-3", "4103": "ConnectX-3 Pro", "4113": "Connect-IB", "4115": "ConnectX-4",
    "4117": "ConnectX-4 Lx", "4119": "ConnectX-5", "4121": "ConnectX-5 Ex", "4123": "ConnectX-6",
    "4125": "ConnectX-6 Dx", "4127": "ConnectX-6 Lx", "4129": "ConnectX-7", "4131": "ConnectX-8",
    "4133": "ConnectX-9", "41682": "BlueField", "41686": "BlueField-2", "41692": "BlueField-3",
    "41695": "BlueField-4", "4116": "ConnectX-4 VF", "4118": "ConnectX-4 Lx VF",
    "4120": "ConnectX-5 VF", "4122": "ConnectX-5 Ex VF", "4124": "ConnectX-6 VF",
    "4126": "ConnectX VF",
}  # fmt: skip
_CABLE = "look at cable, transceiver and switch port (shut?): mlxlink -d {0} -m, ethtool -m NETDEV"
# By physical state (PortInfo:PortPhysicalState). mlx5_ib's query of a RoCE port says Disabled of
# each without a carrier, whether or not its interface is up (Linux, mlx5_query_port_roce).
_FIXES = {
    "disabled": f"it is switched off: {{1}}; if it is on there already, {_CABLE}",
    "polling": f"it is on, and nobody answers: {_CABLE}",
}
_ON = {"InfiniBand": "mlxlink -d DEVICE --port_state UP", "Ethernet": "ip link set NETDEV up"}


@dataclass(frozen=True)
class ListedPort:
    """A port as it was printed; a field that was not is empty or 0."""

    device: str
    number: int
    model: str = ""
    card: str = ""  # what the ports of one card share; the device if that was not printed
    state: str = ""  # such as active, down, init
    physical: str = ""  # such as linkup, polling, disabled
    link: str = ""  # InfiniBand or Ethernet
    gbps: float = 0.0
    mtu: int = 0  # the most bytes of a packet now
    most_mtu: int = 0  # the most bytes of a packet that it can have

    @property
    def is_active(self) -> bool:
        """Return whether data can pass."""
        return self.state == "active"

    @property
    def name(self) -> str:
        """Return the device, with the number of a port that is not the first."""
        return self.device if self.number == 1 else f"{self.device} port {self.number}"


@dataclass(frozen=True)
class HostPorts:
    """All ports that a text lists."""

    input: str
    file: str
    ports: tuple[ListedPort, ...]


def reader(input_id: str) -> Callable[[GivenText], Shown]:
    """Return the reader of a row of the table of inputs."""
    return lambda given: judge(
        HostPorts(
            input_id,
            given.name,
            tuple(sorted(_ports(given), key=lambda port: (natural(port.device), port.number))),
        )
    )


def judge(found: HostPorts, used: Collection[str] | None = None) -> Shown:
    """Return what a host's ports show.

    Args:
        used: the devices that are known to be used there; None if that is unknown.
    """
    stated = [port for port in found.ports if port.state]
    findings = [*_without_manager(stated), *_down(stated, used)]
    if not stated:
        what = f"{found.input}: the state of no port is in it"
        findings.append(unread(found.file, what, f"save all that {found.input} prints"))
    is_open = any(not each.proven for each in findings)
    active = [port for port in stated if port.is_active]
    return Shown(
        found.input,
        (found.file,),
        tuple(_sentences(found.ports)),
        tuple(findings),
        f"{quantity(len(active), 'port')} active" if active else "",
        ("which ports are rails: pass a log of NCCL's, or: rdmaprov validate SITE",)
        if is_open
        else (),
        (found,),
    )


def _ports(given: GivenText) -> list[ListedPort]:
    ports, own, is_open = list[ListedPort](), ListedPort("", 1), False
    factors: dict[str, float] = {}  # of the rate: lanes, and the speed of each
    for line in given.lines():
        if found := _DEVICE.match(line):
            own, is_open = ListedPort(found[1] or found[2], 1), False
        elif (found := _PORT.match(line)) and (found[1] or own.device):
            if len(ports) == _MOST_PORTS:
                break
            own, is_open, factors = ListedPort(found[1], 1) if found[1] else own, True, {}
            ports.append(replace(own, number=int(found[2])))
        elif own.device and (found := _FIELD.match(line)):
            name, value = found[1].lower().replace(" ", "_"), found[2]
            if not is_open and name == "state":  # as of a text that was trimmed
                is_open, factors = True, {}
                ports.append(own)
            if is_open:
                ports[-1] = _with_field(ports[-1], name, value)
                if name in ("active_width", "active_speed") and (number := _SPEED.match(value)):
                    factors[name] = float(number[0])
                if len(factors) == 2:
                    ports[-1] = replace(ports[-1], gbps=prod(factors.values()))
            else:
                own = _with_field(own, name, value)
    return ports


def _with_field(port: ListedPort, name: str, value: str) -> ListedPort:
    word = _CODE.sub("", value.split(" (")[0])
    number = int(word) if word.isdecimal() and len(word) < 6 else 0
    rate = word.removesuffix(" Gb/sec")
    found: dict[str, tuple[str, Any]] = {
        "state": ("state", word.removeprefix("PORT_").lower()),
        "phys_state": ("physical", word.replace("_", "").lower()),
        "link_layer": ("link", word if word in ("InfiniBand", "Ethernet") else ""),
        "rate": ("gbps", float(rate) if _SPEED.fullmatch(rate) else 0.0),
        "active_mtu": ("mtu", number),
        "max_mtu": ("most_mtu", number),
        "vendor_part_id": ("model", _MODELS.get(word, word)),
        "ca_type": ("model", _MODELS.get(word[2:], word)),
        "sys_image_guid": ("card", word),
    }
    # As ibv_devinfo has it; ibstat calls some otherwise.
    name = name.replace("physical", "phys").replace("system", "sys")
    of, what = found.get(name, ("", None))
    return replace(port, **{of: what}) if of else port


def _without_manager(ports: Sequence[ListedPort]) -> Iterator[Finding]:
    waiting = [p for p in ports if p.state in _INITS and p.link == "InfiniBand"]
    if waiting:
        names = some([port.name for port in waiting], 4)
        what = f"{names}: the link is up, and no subnet manager has made the port active"
        fix = "look for the master: sminfo; start one: opensm, or that of a switch or UFM"
        yield Finding("subnet.manager", what, fix, part=waiting[0].device, port=waiting[0].number)


def _down(ports: Sequence[ListedPort], used: Collection[str] | None) -> Iterator[Finding]:
    """Yield the ports that carry nothing: at fault if they are used, or if no port is active."""
    down = [
        p for p in ports if not p.is_active and not (p.state in _INITS and p.link == "InfiniBand")
    ]
    # One device alone may be all that somebody asked for.
    is_all = not any(port.is_active for port in ports) and len({p.device for p in down}) > 1
    linked = _linked(ports)
    alike: dict[tuple[str, str, str, bool], list[ListedPort]] = defaultdict(list)
    for port in down:
        is_used = used is not None and port.device in used
        is_rail, why = _likeness(port, linked)
        if is_all:
            rest = "; no port in it is active"
        elif is_used:
            rest = ", and the job uses it"
        elif is_rail:
            rest = f"; {why}: a lost rail, unless it is unused on purpose"
            rest += "; the job did without it" if used is not None else ""
        else:
            rest = "; perhaps it is no rail" + (f": {why}" if why else "")
        state = port.state + (f" ({port.physical})" if port.physical else "")
        if used is None or is_used or is_all or is_rail:
            alike[state + rest, port.physical, port.link, is_all or is_used].append(port)
    for (what, physical, link, proven), own in alike.items():
        device = own[0].device if len(own) == 1 else "DEVICE"
        yield Finding(
            "rail.not-ready",
            f"{some([port.name for port in own], 4)}: {what}",
            _FIXES.get(physical, _CABLE).format(device, _ON.get(link, " or ".join(_ON.values()))),
            proven=proven,
            part=own[0].device,
            port=own[0].number,
        )


def lost_rails(ports: Sequence[ListedPort], like: Collection[str]) -> list[ListedPort]:
    """Return the ports that are down and, by the other cards of these models, like rails."""
    linked = _linked(ports)
    return [p for p in ports if p.state == "down" and p.model in like and _likeness(p, linked)[0]]


def _linked(ports: Sequence[ListedPort]) -> Mapping[str, Mapping[str, bool]]:
    """Return by model, of each card, whether one of its ports has a link."""
    linked: dict[str, dict[str, bool]] = defaultdict(dict)
    for port in ports:
        linked[port.model].setdefault(port.card or port.device, False)
        linked[port.model][port.card or port.device] |= port.is_active or port.state in _INITS
    return linked


def _likeness(port: ListedPort, linked: Mapping[str, Mapping[str, bool]]) -> tuple[bool, str]:
    """Return whether a port without a link is like rails, and by what that is judged.

    Args:
        linked: by model, of each card whether one of its ports has a link.
    """
    own = linked[port.model]
    if not port.model:
        return False, ""
    if own[port.card or port.device]:
        return False, "another port of its card has a link"
    up, every = sum(own.values()), sum(map(len, linked.values()))
    if len(own) == 1:
        return False, f"it is the only {port.model} card" if every > 1 else ""
    count = f"{up} of {len(own)} {port.model} cards here {'has' if up == 1 else 'have'} a link"
    return 2 * up > len(own) or (not up and 2 * len(own) > every), count


def _sentences(ports: Sequence[ListedPort]) -> Iterator[str]:
    """Yield what ports show, those that carry nothing first."""
    alike: dict[str, list[str]] = defaultdict(list)
    for port in sorted(ports, key=lambda port: port.is_active):
        words = [port.state or "state unknown", port.physical, port.link]
        # What a port without a link shows as its rate is none.
        words.append(f"{port.gbps:g} Gb/s" if port.gbps and port.state != "down" else "")
        if (
            port.is_active
            and port.link == "Ethernet"
            and 0 < port.mtu <= _SMALL_MTU < port.most_mtu
        ):
            words.append(
                f"RDMA MTU {port.mtu} of {port.most_mtu}: its interface has 1,500 bytes or so"
            )
        alike[", ".join(filter(None, [*words, port.model]))].append(port.name)
    for said, names in alike.items():
        yield f"{some(names, 12)}: {said}"
