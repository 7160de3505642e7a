"""The DCB and pause of one port: from what they are to what they must be. Runs on the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..machine import Machine
from ..plan import RUNNING, Change, NotYet, Plan, Refused
from . import link
from .compare import (
    buffers_differ,
    cable_differs,
    ets_text,
    map_differs,
    missing,
    pair,
    pfc_text,
    shares,
    with_buffers,
)
from .dcb import Dcb
from .description import Description
from .link import plan_pause
from .mlnx_qos import MlnxQos
from .state import Backend, Seen, attempt


@dataclass(frozen=True)
class Aspect:
    """One part of a port's DCB."""

    setting: str
    # what is seen and what is wanted, as texts; None where they are the same
    differs: Callable[[Seen], tuple[str, str] | None]
    # the command lines that make it right, given what is seen
    set: Callable[[Seen], list[list[str]]]
    undo: Callable[[Seen], list[list[str]]]  # those that make it again what was seen
    negotiated: bool = False
    flaps: bool = False  # the driver takes the link down and up for it


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
    for aspect in [*_classification(backend, netdev, wanted), *_queues(backend, netdev, wanted)]:
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


def _classification(backend: Backend, netdev: str, wanted: Description) -> list[Aspect]:
    return [
        Aspect(
            "DCBX",
            lambda seen: pair("host" if seen.host else "firmware", wanted.dcbx),
            lambda _: backend.control(netdev, host=wanted.dcbx == "host"),
            lambda seen: _give_back(backend, netdev, seen),
        ),
        Aspect(
            "trust",
            lambda seen: pair(seen.trust, wanted.trust),
            lambda seen: backend.trust(netdev, seen, missing(seen, wanted)),
            lambda seen: backend.trust(netdev, seen, list(seen.entries)),
        ),
        Aspect(
            "DSCP map",
            lambda seen: map_differs(seen, wanted),
            lambda seen: backend.trust(netdev, seen, missing(seen, wanted)),
            lambda seen: backend.trust(netdev, seen, list(seen.entries)),
        ),
    ]


def _queues(backend: Backend, netdev: str, wanted: Description) -> list[Aspect]:
    return [
        Aspect(
            "PFC",
            lambda seen: pair(pfc_text(seen.pfc), pfc_text(wanted.pfc)),
            lambda _: backend.pfc(netdev, wanted.pfc, wanted.cable_length_m),
            lambda seen: backend.pfc(netdev, seen.pfc, seen.cable_length_m),
            negotiated=True,
            flaps=True,
        ),
        Aspect(
            "cable length",
            lambda seen: cable_differs(seen, wanted),
            lambda seen: backend.pfc(
                netdev, wanted.pfc if wanted.dcbx == "host" else seen.pfc, wanted.cable_length_m
            ),
            lambda seen: backend.pfc(netdev, seen.pfc, seen.cable_length_m),
        ),
        Aspect(
            "ETS",
            lambda seen: pair(ets_text(seen), ets_text(wanted)),
            lambda _: backend.ets(netdev, wanted.tsa, wanted.percent, wanted.classes),
            lambda seen: backend.ets(netdev, seen.tsa, shares(seen), seen.classes),
            negotiated=True,
        ),
        Aspect(
            "receive buffers",
            lambda seen: buffers_differ(seen, wanted, netdev),
            lambda seen: backend.buffers(netdev, *with_buffers(seen, wanted)),
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
        before = link.Link(plan.machine, netdev)
        failed = attempt(plan.machine, commands)
        if aspect.flaps:
            before.await_return(f"its {aspect.setting} changed")
        after = backend.read(netdev)
        if failed is not None and (after is None or aspect.differs(after) is not None):
            raise failed

    if aspect.flaps:
        plan.interrupt(f"{netdev} {aspect.setting}", link.EFFECT, link.LASTS)
    change = Change(RUNNING, netdev, aspect.setting, *different)
    plan.add(change, do, aspect.undo(seen))
