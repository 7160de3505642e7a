"""The commands that repair a switch, in its own language. They are printed, and never run.

SONiC: sonic-net/sonic-utilities, doc/Command-Reference.md; not its `ecnconfig -q`, which binds a
profile AZURE_LOSSLESS, whatever the switch has. Cumulus Linux: NVIDIA's documentation, "Quality of
Service". Arista: EOS User Manual. `PORT` is replaced by the port.
"""

from __future__ import annotations

import re

from rdmaprov.switches.model import SwitchFact, SwitchPort, SwitchSystem

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
