"""The commands that repair a switch, in its own language. They are printed, and never run.

SONiC: sonic-net/sonic-utilities, doc/Command-Reference.md. Cumulus Linux: NVIDIA's documentation,
"Quality of Service". Arista: EOS User Manual. `PORT` is replaced by the port.
"""

from __future__ import annotations

from rdmaprov.switches.model import SwitchFact, SwitchSystem

_S, _C, _A = SwitchSystem.SONIC, SwitchSystem.CUMULUS, SwitchSystem.ARISTA
_APPLY = "; nv config apply"
_COMMANDS = {
    (_S, SwitchFact.PFC): "sudo config interface pfc priority PORT {priority} {state}",
    (_S, SwitchFact.TRUST): "sonic-db-cli CONFIG_DB HSET 'PORT_QOS_MAP|PORT' dscp_to_tc_map MAP",
    (_S, SwitchFact.DSCP_MAP): "sonic-db-cli CONFIG_DB HSET 'DSCP_TO_TC_MAP|MAP' {dscp} {priority}",
    (_S, SwitchFact.ECN): "sudo ecnconfig -q {queue} on",
    (_S, SwitchFact.MTU): "sudo config interface mtu PORT {mtu}",
    (_S, SwitchFact.BUFFERS): (
        "sudo config interface buffer priority-group lossless add PORT {group}"
    ),
    (_S, SwitchFact.WATCHDOG): (
        "sudo config pfcwd start --action drop PORT 200 --restoration-time 400"
    ),
    (_C, SwitchFact.PFC): "nv {verb} qos pfc default-global switch-priority {priority}" + _APPLY,
    (_C, SwitchFact.TRUST): "nv set qos mapping default-global trust both" + _APPLY,
    (_C, SwitchFact.DSCP_MAP): (
        "nv set qos mapping default-global dscp {dscp} switch-priority {priority}" + _APPLY
    ),
    (_C, SwitchFact.ECN): (
        "nv set qos congestion-control default-global traffic-class {queue} ecn enable" + _APPLY
    ),
    (_C, SwitchFact.MTU): "nv set interface PORT link mtu {mtu}" + _APPLY,
    (_C, SwitchFact.WATCHDOG): "nv set interface PORT qos pfc-watchdog" + _APPLY,
    (_A, SwitchFact.PFC): (
        "interface PORT; priority-flow-control on; priority-flow-control priority {priority} {drop}"
    ),
    (_A, SwitchFact.TRUST): "interface PORT; qos trust dscp",
    (_A, SwitchFact.DSCP_MAP): "qos map dscp {dscp} to traffic-class {priority}",
    (_A, SwitchFact.ECN): (
        "interface PORT; uc-tx-queue {queue}; random-detect ecn minimum-threshold N kbytes"
        " maximum-threshold N kbytes"
    ),
    (_A, SwitchFact.MTU): "interface PORT; mtu {mtu}",
    (_A, SwitchFact.WATCHDOG): "priority-flow-control pause watchdog default timeout 0.2",
}


def remedy(system: SwitchSystem | None, fact: SwitchFact, **values: object) -> str:
    """Return the command, with PORT for the port; empty if there is none."""
    text = _COMMANDS.get((system, fact)) if system is not None else None
    return text.format(**values) if text else ""


def pfc_remedy(system: SwitchSystem | None, priority: int, is_on: bool) -> str:
    """Return the command that turns PFC of a priority on or off."""
    return remedy(
        system,
        SwitchFact.PFC,
        priority=priority,
        state="on" if is_on else "off",
        verb="set" if is_on else "unset",
        drop="no-drop" if is_on else "drop",
    )
