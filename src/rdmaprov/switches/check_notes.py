"""What is worth a look on a port, and does not count in the verdict.

No site says what these should be, or they are counts of any age.
"""

from __future__ import annotations

from collections.abc import Iterator

from rdmaprov.finding.finding import Finding
from rdmaprov.switches.model import SwitchFact, SwitchPort, SwitchReading
from rdmaprov.switches.problem import of_port
from rdmaprov.switches.remedies import remedy
from rdmaprov.switches.wanted import WantedSwitch
from rdmaprov.words import quantity


def port_notes(reading: SwitchReading, port: SwitchPort, wanted: WantedSwitch) -> Iterator[Finding]:
    """Yield the notes on a port."""
    yield from _watchdog(reading, port)
    yield from _drops(reading, port, wanted)
    yield from _shares(reading, port, wanted)


def _note(reading: SwitchReading, fact: SwitchFact, seen: str, command: str = "") -> Finding:
    return of_port(fact, seen, command, read=reading.where.get(fact, ""))


def _watchdog(reading: SwitchReading, port: SwitchPort) -> Iterator[Finding]:
    """Without it, one NIC that never stops pausing stops the fabric.

    RDMA over Commodity Ethernet at Scale (SIGCOMM 2016), section 4.3.
    """
    watchdog = port.watchdog
    if watchdog is None:
        return
    if watchdog.is_on is False and port.pfc_rx:
        command = remedy(reading.system, SwitchFact.WATCHDOG, port)
        yield _note(reading, SwitchFact.WATCHDOG, "the PFC watchdog is off", command)
    if watchdog.storms:
        seen = f"the PFC watchdog counted {quantity(watchdog.storms, 'storm')} of pause"
        yield _note(reading, SwitchFact.WATCHDOG, seen)
    for queue in watchdog.stormed:
        seen = f"the PFC watchdog holds queue {queue}: its storm of pause had not ended"
        yield _note(reading, SwitchFact.WATCHDOG, seen)


def _drops(reading: SwitchReading, port: SwitchPort, wanted: WantedSwitch) -> Iterator[Finding]:
    of_roce = {f"queue {port.queue_for(wanted.roce_dscp)}", "rx RoCE", "tx RoCE", "tx CNP"}
    for name, count in (port.drops or {}).items():
        if count and name in of_roce:
            seen = f"{quantity(count, 'packet')} of {name} dropped since the counters were cleared"
            yield _note(reading, SwitchFact.DROPS, seen)


def _shares(reading: SwitchReading, port: SwitchPort, wanted: WantedSwitch) -> Iterator[Finding]:
    queue = port.queue_for(wanted.cnp_dscp)
    share = (port.shares or {}).get(-1 if queue is None else queue)
    if share is not None and not share.is_strict:
        seen = f"queue {queue} of CNPs is not served first"
        yield _note(reading, SwitchFact.WEIGHTS, seen)
