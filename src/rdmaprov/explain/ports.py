"""What ibv_devinfo, ibstat and ibstatus say of a host's RDMA ports.

The words are those of rdma-core, libibverbs/examples/devinfo.c and infiniband-diags/ibstat.c.
None names its host, nor says which of its ports are rails: one that is down may be a spare one.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.words import quantity, some

_DEVICE = re.compile(r"^(?:hca_id:\s+(\S{1,64})|CA:? '([^'\n]{1,64})')\s*$")
_PORT = re.compile(
    r"^(?:Infiniband device '([^'\n]{1,64})' port (?=\d+ status:)|\s*(?:port:\s+|Port )"
    r"(?=\d+:?\s*$))(\d{1,3})\b"
)
_FIELD = re.compile(r"^\s*([A-Za-z_]{1,24}(?: [a-z]{1,16})?):\s+(.{1,64}?)\s*$")
_CODE = re.compile(r"^\d: ")  # as ibstatus has before a state
_SPEED = re.compile(r"\d{1,3}(?:\.\d)?")
_MOST_PORTS = 4096
_SMALL_MTU = 1024  # what fits into the usual 1,500 bytes of Ethernet
_INITS = {"init", "initializing"}


@dataclass(frozen=True)
class ListedPort:
    """A port as it was printed; a field that was not is empty or 0.

    Args:
        state: such as active, down, init.
        physical: such as linkup, polling, disabled.
        link: InfiniBand or Ethernet.
        mtu: the most bytes of a packet now.
        most_mtu: the most bytes of a packet that it can have.
    """

    device: str
    number: int
    state: str = ""
    physical: str = ""
    link: str = ""
    gbps: float = 0.0
    mtu: int = 0
    most_mtu: int = 0

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
    return lambda given: judge(HostPorts(input_id, given.name, tuple(_ports(given))))


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
    ports, device, is_open = list[ListedPort](), "", False
    factors: dict[str, float] = {}  # of the rate: lanes, and the speed of each
    for line in given.lines():
        if found := _DEVICE.match(line):
            device, is_open = found[1] or found[2], False
        elif (found := _PORT.match(line)) and (found[1] or device):
            if len(ports) == _MOST_PORTS:
                break
            device, is_open, factors = found[1] or device, True, {}
            ports.append(ListedPort(device, int(found[2])))
        elif device and (found := _FIELD.match(line)):
            name, value = found[1].lower().replace(" ", "_"), found[2]
            if not is_open and name == "state":  # as of a text that was trimmed
                is_open, factors = True, {}
                ports.append(ListedPort(device, 1))
            if is_open:
                ports[-1] = _with_field(ports[-1], name, value)
                if name in ("active_width", "active_speed") and (number := _SPEED.match(value)):
                    factors[name] = float(number[0])
                if len(factors) == 2:
                    ports[-1] = replace(ports[-1], gbps=prod(factors.values()))
    return ports


def _with_field(port: ListedPort, name: str, value: str) -> ListedPort:
    word = _CODE.sub("", value.split(" (")[0])
    number = int(word) if word.isdecimal() and len(word) < 6 else 0
    match name:
        case "state":
            return replace(port, state=word.removeprefix("PORT_").lower())
        case "phys_state" | "physical_state":
            return replace(port, physical=word.replace("_", "").lower())
        case "link_layer":
            return replace(port, link=word if word in ("InfiniBand", "Ethernet") else "")
        case "rate":
            rate = word.removesuffix(" Gb/sec")
            return replace(port, gbps=float(rate) if _SPEED.fullmatch(rate) else 0.0)
        case "active_mtu":
            return replace(port, mtu=number)
        case "max_mtu":
            return replace(port, most_mtu=number)
    return port


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
    by_state: dict[str, list[ListedPort]] = defaultdict(list)
    for port in down:
        if used is None or port.device in used or is_all:
            by_state[port.state + (f" ({port.physical})" if port.physical else "")].append(port)
    for state, own in by_state.items():
        names = some([port.name for port in own], 4)
        if is_all:
            rest = "; no port in it is active"
        else:
            rest = ", and the job uses it" if used is not None else "; perhaps it is no rail"
        yield Finding(
            "rail.not-ready",
            f"{names}: {state}{rest}",
            "look at cable, transceiver and switch port: ethtool or mlxlink -d DEVICE; ip link",
            proven=is_all or used is not None,
            part=own[0].device,
            port=own[0].number,
        )


def _sentences(ports: Sequence[ListedPort]) -> Iterator[str]:
    alike: dict[str, list[str]] = defaultdict(list)
    for port in ports:
        words = [port.state or "state unknown", port.physical, port.link]
        words.append(f"{port.gbps:g} Gb/s" if port.gbps else "")
        if (
            port.is_active
            and port.link == "Ethernet"
            and 0 < port.mtu <= _SMALL_MTU < port.most_mtu
        ):
            words.append(
                f"RDMA MTU {port.mtu} of {port.most_mtu}: its interface has 1,500 bytes or so"
            )
        alike[", ".join(filter(None, words))].append(port.name)
    for said, names in alike.items():
        yield f"{some(names, 12)}: {said}"
