"""What is wrong with one port, and what is not known of it."""

import re
from collections.abc import Iterator

from rdmaprov.contract.qos import priority_names
from rdmaprov.finding.finding import Finding
from rdmaprov.switches.model import EcnCurve, SwitchFact, SwitchPort, SwitchReading, SwitchSystem
from rdmaprov.switches.problem import UNUSUAL, of_port
from rdmaprov.switches.wanted import WantedSwitch


class PortCheck:
    """The checks of one port; each yields what it finds."""

    def __init__(self, reading: SwitchReading, port: SwitchPort, wanted: WantedSwitch) -> None:
        self._reading, self._port, self._wanted = reading, port, wanted

    def problems(self) -> Iterator[Finding]:
        """Yield all that is wrong or not known."""
        yield from self._pfc()
        yield from self._trust()
        if self._reads_dscp:
            yield from self._roce_class()
            yield from self._cnp_class()
        yield from self._ecn()
        yield from self._mtu()
        yield from self._buffers()

    @property
    def _reads_dscp(self) -> bool:
        """Return whether DSCP decides, as far as is known."""
        return self._wanted.trusts_dscp and self._port.trusts_dscp is not False

    def _wrong(self, fact: SwitchFact, seen: str, expected: str, command: str = "") -> Finding:
        source, read = self._wanted.source(fact), self._reading.where.get(fact, "")
        return of_port(
            fact, seen, command, proven=True, expected=expected, source=source, read=read
        )

    def _pfc(self) -> Iterator[Finding]:
        port, wanted = self._port, self._wanted.pfc
        if port.pfc_rx is None or port.pfc_tx is None:
            yield of_port(SwitchFact.PFC, "PFC")
            return
        missing = wanted - (port.pfc_rx & port.pfc_tx)
        extra = port.pfc_tx - wanted
        if not missing and not extra:
            return
        expected = priority_names(sorted(wanted)) if wanted else "none"
        first = min(missing or extra)
        state, verb, drop = ("on", "set", "no-drop") if missing else ("off", "unset", "drop")
        command = self._remedy(SwitchFact.PFC, priority=first, state=state, verb=verb, drop=drop)
        if missing or self._wanted.is_site:
            yield self._wrong(SwitchFact.PFC, _pfc_seen(port), expected, command)
        else:
            usual = f"{expected} is {self._wanted.source(SwitchFact.PFC)}"
            seen = f"{_pfc_seen(port)}; {usual}"
            yield of_port(SwitchFact.PFC, seen, kind=UNUSUAL)

    def _trust(self) -> Iterator[Finding]:
        trusts = self._port.trusts_dscp
        if trusts is None and self._wanted.trusts_dscp:
            yield of_port(SwitchFact.TRUST, "whether the port trusts DSCP")
        elif trusts is False and self._wanted.trusts_dscp:
            command = self._remedy(SwitchFact.TRUST)
            yield self._wrong(SwitchFact.TRUST, "the port does not trust DSCP", "dscp", command)

    def _roce_class(self) -> Iterator[Finding]:
        dscp, priority = self._wanted.roce_dscp, self._wanted.roce_priority
        number = self._port.class_of(dscp)
        if number is None:
            yield of_port(SwitchFact.DSCP_MAP, f"the class of DSCP {dscp} (RoCE data)")
        elif priority not in self._port.pausing(number):
            stops = sorted(self._port.pausing(number))
            paused = f", which pauses of {priority_names(stops)} stop" if stops else ""
            seen = f"DSCP {dscp} (RoCE data) has class {number}{paused}"
            command = self._remedy(SwitchFact.DSCP_MAP, dscp=dscp, priority=priority)
            yield self._wrong(SwitchFact.DSCP_MAP, seen, f"priority {priority}", command)

    def _cnp_class(self) -> Iterator[Finding]:
        dscp, priority = self._wanted.cnp_dscp, self._wanted.cnp_priority
        number = self._port.class_of(dscp)
        if number is None:
            yield of_port(SwitchFact.DSCP_MAP, f"the class of DSCP {dscp} (CNPs)")
            return
        stops = self._port.pausing(number)
        is_lossless = bool(stops & (self._port.pfc_tx or frozenset()))
        seen = f"DSCP {dscp} (CNPs) has class {number}"
        if is_lossless:
            seen += ", which PFC pauses"
        if is_lossless or (priority not in stops and self._wanted.is_site):
            command = self._remedy(SwitchFact.DSCP_MAP, dscp=dscp, priority=priority)
            yield self._wrong(SwitchFact.DSCP_MAP, seen, f"priority {priority}", command)
        elif priority not in stops:
            yield of_port(
                SwitchFact.DSCP_MAP, f"{seen}; priority {priority} is usual", kind=UNUSUAL
            )

    def _remedy(self, fact: SwitchFact, **values: object) -> str:
        return remedy(self._reading.system, fact, self._port, **values)

    def _queue(self) -> tuple[int | None, int | None]:
        """Return the class and the queue of RoCE data, or those that it should have."""
        priority = self._wanted.roce_priority
        number = self._port.class_of(self._wanted.roce_dscp) if self._reads_dscp else priority
        if number is not None and priority not in self._port.pausing(number):
            number = priority  # what is wrong with its class is told already
        return number, None if number is None else self._port.queue_of(number)

    def _ecn(self) -> Iterator[Finding]:
        if not self._wanted.ecn:
            return
        number, queue = self._queue()
        if self._port.ecn is not None and not any(e.is_on for e in self._port.ecn.values()):
            command = self._remedy(SwitchFact.ECN, queue=self._wanted.roce_priority)
            yield self._wrong(SwitchFact.ECN, "ECN is off for all queues", "on", command)
        elif queue is None or self._port.ecn is None:
            yield of_port(SwitchFact.ECN, "ECN of the queue of RoCE data")
        else:
            yield from self._marks(number, queue, self._port.ecn.get(queue))

    def _marks(self, number: int | None, queue: int, curve: EcnCurve | None) -> Iterator[Finding]:
        if curve is None or not curve.is_on:
            command = self._remedy(SwitchFact.ECN, queue=queue)
            yield self._wrong(SwitchFact.ECN, f"ECN is off for queue {queue}", "on", command)
        elif curve.least is None or curve.most is None:
            yield of_port(SwitchFact.ECN, f"where ECN of queue {queue} begins and ends")
        else:
            yield from self._curve(queue, number, curve, curve.least, curve.most)

    def _curve(
        self, queue: int, number: int | None, curve: EcnCurve, least: float, most: float
    ) -> Iterator[Finding]:
        if least > most:
            seen = f"ECN of queue {queue} begins at {least:,} {curve.unit} and ends at {most:,}"
            yield self._wrong(SwitchFact.ECN, seen, "a beginning below its end")
        if curve.percent == 0:
            seen = f"ECN of queue {queue} marks with a probability of 0 %"
            yield self._wrong(SwitchFact.ECN, seen, "more")
        group = (self._port.class_group or {}).get(-1 if number is None else number, -1)
        pauses_at = (self._port.xoff_bytes or {}).get(group)
        if pauses_at is not None and curve.unit == "bytes" and least >= pauses_at:
            seen = f"ECN of queue {queue} begins at {least:,} bytes, PFC pauses at {pauses_at:,}"
            yield self._wrong(SwitchFact.ECN, seen, "ECN first")

    def _mtu(self) -> Iterator[Finding]:
        mtu, least = self._port.mtu_bytes, self._wanted.mtu_bytes
        if mtu is None:
            yield of_port(SwitchFact.MTU, "the MTU")
        elif mtu < least:
            command = self._remedy(SwitchFact.MTU, mtu=least)
            yield self._wrong(SwitchFact.MTU, f"the MTU is {mtu:,}", f"at least {least:,}", command)

    def _buffers(self) -> Iterator[Finding]:
        number, _ = self._queue()
        groups, lossless = self._port.class_group, self._port.lossless_groups
        if not self._wanted.pfc or number is None or groups is None or lossless is None:
            return
        group = groups.get(number)
        if group is not None and group not in lossless:
            command = self._remedy(SwitchFact.BUFFERS, group=group)
            seen = f"priority group {group} of RoCE data has no room for what follows a pause"
            yield self._wrong(SwitchFact.BUFFERS, seen, "a lossless buffer", command)


def _pfc_seen(port: SwitchPort) -> str:
    received, sent = port.pfc_rx or frozenset(), port.pfc_tx or frozenset()
    if received == sent:
        return f"PFC is {_on(sent)}"
    return f"PFC is {_on(received)} as it receives, {_on(sent)} as it sends"


def _on(priorities: frozenset[int]) -> str:
    return f"on for {priority_names(sorted(priorities))}" if priorities else "off"


# The commands that repair a switch, in its own language. They are printed, and never run.
# SONiC: sonic-net/sonic-utilities, doc/Command-Reference.md; not its `ecnconfig -q`, which binds a
# profile AZURE_LOSSLESS, whatever the switch has. Cumulus Linux: NVIDIA's documentation, "Quality
# of Service". Arista: EOS User Manual. `PORT` is replaced by the port.
_S, _C, _A = SwitchSystem.SONIC, SwitchSystem.CUMULUS, SwitchSystem.ARISTA
_HSET = "sonic-db-cli CONFIG_DB HSET"
_APPLY = "; nv config apply"
_COMMANDS = {
    (_S, SwitchFact.PFC): "sudo config interface pfc priority PORT {priority} {state}",
    (_S, SwitchFact.TRUST): f"{_HSET} 'PORT_QOS_MAP|PORT' dscp_to_tc_map {{name}}",
    (_S, SwitchFact.DSCP_MAP): f"{_HSET} 'DSCP_TO_TC_MAP|{{name}}' {{dscp}} {{priority}}",
    (_S, SwitchFact.ECN): f"{_HSET} {{name}}",
    (_S, SwitchFact.MTU): "sudo config interface mtu PORT {mtu}",
    (_S, SwitchFact.BUFFERS): (
        "sudo config interface buffer priority-group lossless add PORT {group}"
    ),
    (_S, SwitchFact.WATCHDOG): (
        "sudo config pfcwd start --action drop PORT 200 --restoration-time 400"
    ),
    (_C, SwitchFact.PFC): "nv {verb} qos pfc {name} switch-priority {priority}" + _APPLY,
    (_C, SwitchFact.TRUST): "nv set qos mapping {name} trust both" + _APPLY,
    (_C, SwitchFact.DSCP_MAP): "nv set qos mapping {name} dscp {dscp} switch-priority {priority}"
    + _APPLY,
    (_C, SwitchFact.ECN): (
        "nv set qos congestion-control {name} traffic-class {queue} ecn enable" + _APPLY
    ),
    (_C, SwitchFact.MTU): "nv set interface PORT link mtu {mtu}" + _APPLY,
    (_C, SwitchFact.WATCHDOG): "nv set interface PORT qos pfc-watchdog" + _APPLY,
    (_A, SwitchFact.PFC): (
        "{name}; priority-flow-control on; priority-flow-control priority {priority} {drop}"
    ),
    (_A, SwitchFact.TRUST): "{name}; qos trust dscp",
    (_A, SwitchFact.DSCP_MAP): "qos map dscp {dscp} to traffic-class {priority}",
    (_A, SwitchFact.ECN): (
        "{name} {queue}; random-detect ecn minimum-threshold N kbytes maximum-threshold N kbytes"
    ),
    (_A, SwitchFact.MTU): "interface PORT; mtu {mtu}",
    (_A, SwitchFact.WATCHDOG): "priority-flow-control pause watchdog default timeout 0.2",
}
_NAME = re.compile(r"[\w '|{};./[\]-]{1,128}", re.ASCII)


def remedy(
    system: SwitchSystem | None, fact: SwitchFact, port: SwitchPort, **values: object
) -> str:
    """Return the command, with PORT for the port; empty if there is none, or no map to name."""
    text = _COMMANDS.get((system, fact), "") if system is not None else ""
    name = port.named.get(fact) or ("default-global" if system is _C else "")
    is_open = "{name}" in text and not _NAME.fullmatch(name)
    name = name.replace("{queue}", str(values.get("queue")))
    return "" if is_open else text.format(name=name, **values)
