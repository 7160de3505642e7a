"""The DCB and pause of one port: from what they are to what they must be. Runs on the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..machine import Machine
from ..plan import RUNNING, Change, NotYet, Plan, Refused
from .dcb import Dcb
from .description import Description
from .mlnx_qos import MlnxQos
from .pause import plan_pause
from .state import Backend, Seen, attempt

_LISTED = 6


@dataclass(frozen=True)
class Aspect:
    """One part of a port's DCB.

    Args:
        setting: its name.
        differs: what is seen and what is wanted, as texts; None where they are the same.
        set: the command lines that make it right, given what is seen.
        undo: those that make it again what was seen.
        negotiated: DCBX of the firmware decides it.

    """

    setting: str
    differs: Callable[[Seen], tuple[str, str] | None]
    set: Callable[[Seen], list[list[str]]]
    undo: Callable[[Seen], list[list[str]]]
    negotiated: bool = False


def plan_port(plan: Plan, netdev: str, wanted: Description) -> bool:
    """Plan a port's DCB and pause; return whether it has DCB.

    Raises:
        NotYet: the tools are not installed.
        Refused: the firmware agreed with the switch on something else, and may.

    """
    backend = choose(plan.machine, netdev, wanted)
    seen = backend.read(netdev)
    if seen is None:
        return False
    for aspect in _aspects(backend, netdev, wanted):
        different = aspect.differs(seen)
        if different is None:
            continue
        if aspect.negotiated and wanted.dcbx == "firmware":
            raise Refused(
                "{}: {} is {}, expected {}, and the firmware agrees on it with the switch: set it "
                "there, or write roce_qos_dcbx: host".format(netdev, aspect.setting, *different)
            )
        _add(plan, backend, netdev, aspect, seen)
    plan_pause(plan, netdev, wanted.global_pause)
    return True


def choose(machine: Machine, netdev: str, wanted: Description) -> Backend:
    """Return the tool for a port.

    mlnx_qos is taken where only that can: for giving DCBX to the firmware, for drivers with
    QoS in sysfs (old MLNX_OFED) that do not show it to dcb, and where there is no dcb.
    """
    sysfs = machine.exists(f"/sys/class/net/{netdev}/qos/trust")
    if wanted.backend == "auto":
        special = wanted.dcbx == "firmware" or sysfs or not machine.has("dcb")
        name = "mlnx_qos" if special and machine.has("mlnx_qos") else "dcb"
    else:
        name = wanted.backend
    if not machine.has(name):
        package = "iproute2" if name == "dcb" else "mlnx-tools"
        raise NotYet(f"{netdev}: {name} is not installed ({package}), which sets its QoS")
    return Dcb(machine) if name == "dcb" else MlnxQos(machine)


def _aspects(backend: Backend, netdev: str, wanted: Description) -> list[Aspect]:
    """Return the parts in the order of setting: the host decides first, PFC needs its map."""
    return [
        *_classification(backend, netdev, wanted),
        *_queues(backend, netdev, wanted),
    ]


def _classification(backend: Backend, netdev: str, wanted: Description) -> list[Aspect]:
    return [
        Aspect(
            "DCBX",
            lambda seen: _pair("host" if seen.host else "firmware", wanted.dcbx),
            lambda _: backend.control(netdev, host=wanted.dcbx == "host"),
            lambda seen: _give_back(backend, netdev, seen),
        ),
        Aspect(
            "trust",
            lambda seen: _pair(seen.trust, wanted.trust),
            lambda seen: backend.trust(netdev, seen, _missing(seen, wanted)),
            lambda seen: backend.trust(netdev, seen, list(seen.entries)),
        ),
        Aspect(
            "DSCP map",
            lambda seen: _map_differs(seen, wanted),
            lambda seen: backend.trust(netdev, seen, _missing(seen, wanted)),
            lambda seen: backend.trust(netdev, seen, list(seen.entries)),
        ),
    ]


def _queues(backend: Backend, netdev: str, wanted: Description) -> list[Aspect]:
    return [
        Aspect(
            "PFC",
            lambda seen: _pair(_pfc(seen.pfc), _pfc(wanted.pfc)),
            lambda _: backend.pfc(netdev, wanted.pfc, wanted.cable_length_m),
            lambda seen: backend.pfc(netdev, seen.pfc, seen.cable_length_m),
            negotiated=True,
        ),
        Aspect(
            "cable length",
            lambda seen: _cable_differs(seen, wanted),
            lambda seen: backend.pfc(
                netdev, wanted.pfc if wanted.dcbx == "host" else seen.pfc, wanted.cable_length_m
            ),
            lambda seen: backend.pfc(netdev, seen.pfc, seen.cable_length_m),
        ),
        Aspect(
            "ETS",
            lambda seen: _pair(_ets(seen), _ets(wanted)),
            lambda _: backend.ets(netdev, wanted.tsa, wanted.percent, wanted.classes),
            lambda seen: backend.ets(netdev, seen.tsa, _shares(seen), seen.classes),
            negotiated=True,
        ),
        Aspect(
            "receive buffers",
            lambda seen: _buffers_differ(seen, wanted, netdev),
            lambda seen: backend.buffers(netdev, *_buffers(seen, wanted)),
            lambda seen: backend.buffers(
                netdev, seen.priority_buffer or (), seen.buffer_bytes or ()
            ),
        ),
    ]


def _give_back(backend: Backend, netdev: str, seen: Seen) -> list[list[str]]:
    try:
        return backend.control(netdev, host=seen.host)
    except Refused:
        return []  # dcb takes DCBX from the firmware and cannot give it back


def _add(plan: Plan, backend: Backend, netdev: str, aspect: Aspect, seen: Seen) -> None:
    different = aspect.differs(seen)
    if different is None:
        return
    commands = aspect.set(seen)

    def do() -> None:
        """Set it, and believe what is then read: iproute2 6.1's exit status says nothing."""
        failed = attempt(plan.machine, commands)
        after = backend.read(netdev)
        if failed is not None and (after is None or aspect.differs(after) is not None):
            raise failed

    change = Change(RUNNING, netdev, aspect.setting, *different)
    plan.add(change, do, aspect.undo(seen))


def _pair(seen: str, wanted: str) -> tuple[str, str] | None:
    return None if seen == wanted else (seen, wanted)


def _missing(seen: Seen, wanted: Description) -> list[tuple[int, int]]:
    """Return the entries that a port lacks, none where PCP is wanted.

    Of the 64 none may be left out: mlx5 writes priority 0 for an entry that is removed.
    """
    if wanted.trust == "pcp":
        return []
    return [each for each in enumerate(wanted.priorities) if each not in seen.entries]


def _map_differs(seen: Seen, wanted: Description) -> tuple[str, str] | None:
    """Return the DSCPs whose priority is another one, or several.

    A change of trust writes them all, so it is the only change then.
    """
    if wanted.trust == "pcp" or seen.trust == "pcp":
        return None
    texts = []
    for dscp, priority in enumerate(wanted.priorities):
        found = [each[1] for each in seen.entries if each[0] == dscp]
        if found != [priority]:
            text = "+".join(str(each) for each in found) or "none"
            texts.append((f"{dscp}:{text}", f"{dscp}:{priority}"))
    if not texts:
        return None
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    seen_texts, wanted_texts = zip(*texts[:_LISTED])  # noqa: B905 - Python 3.8 has no strict
    return " ".join(seen_texts) + more, " ".join(wanted_texts) + more


def _pfc(pfc: tuple[bool, ...]) -> str:
    return " ".join(str(priority) for priority, on in enumerate(pfc) if on) or "off"


def _cable_differs(seen: Seen, wanted: Description) -> tuple[str, str] | None:
    """Compare it where the port has buffers to derive from it; others take no notice of it."""
    if seen.buffer_bytes is None:
        return None
    return _pair(f"{seen.cable_length_m} m", f"{wanted.cable_length_m} m")


def _shares(ets: Seen | Description) -> tuple[int, ...]:
    """Return shares of the classes that have one; a NIC may report some for others too."""
    return tuple(
        percent if tsa == "ets" else 0
        for tsa, percent in zip(ets.tsa, ets.percent)  # noqa: B905 - Python 3.8 has no strict
    )


def _ets(ets: Seen | Description) -> str:
    words = [
        f"{tc}:{tsa}" + (f" {percent}%" if percent else "")
        for tc, (tsa, percent) in enumerate(zip(ets.tsa, _shares(ets)))  # noqa: B905
    ]
    classes = "".join(str(tc) for tc in ets.classes)
    return ", ".join(words) + f"; classes of priorities {classes}"


def _buffers(seen: Seen, wanted: Description) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the receive buffers with ours in place."""
    maps, sizes = seen.priority_buffer or (), seen.buffer_bytes or ()
    return (
        tuple(wanted.priority_buffer.get(index, value) for index, value in enumerate(maps)),
        tuple(wanted.buffer_bytes.get(index, value) for index, value in enumerate(sizes)),
    )


def _buffers_differ(seen: Seen, wanted: Description, netdev: str) -> tuple[str, str] | None:
    if not wanted.priority_buffer and not wanted.buffer_bytes:
        return None
    if seen.priority_buffer is None or seen.buffer_bytes is None:
        raise Refused(
            f"{netdev}: the port shows no receive buffers: remove roce_qos_buffer_bytes and "
            "roce_qos_priority_buffer"
        )
    return _pair(
        _buffer_text((seen.priority_buffer, seen.buffer_bytes)),
        _buffer_text(_buffers(seen, wanted)),
    )


def _buffer_text(buffers: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    maps, sizes = (",".join(str(each) for each in values) for values in buffers)
    return f"of priorities {maps}, of {sizes} bytes"
