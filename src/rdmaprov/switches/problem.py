"""What is wrong with a port of a switch, not known of it, or worth a look."""

from rdmaprov.finding.finding import Finding
from rdmaprov.switches.model import SwitchFact

LEVELS = WRONG, UNKNOWN, NOTE = "wrong", "unknown", "note"
_KINDS = {
    None: "switch.unread",
    SwitchFact.PFC: "switch.pfc",
    SwitchFact.TRUST: "switch.trust",
    SwitchFact.DSCP_MAP: "switch.dscp-map",
    SwitchFact.ECN: "switch.ecn",
    SwitchFact.MTU: "switch.mtu",
    SwitchFact.BUFFERS: "switch.buffers",
    SwitchFact.WEIGHTS: "switch.weights",
    SwitchFact.WATCHDOG: "switch.watchdog",
    SwitchFact.DROPS: "switch.drops",
}
UNUSUAL = "switch.unusual"
_NOTES = {"switch.weights", "switch.watchdog", "switch.drops", UNUSUAL}


def of_port(
    fact: SwitchFact | None,
    seen: str,
    remedy: str = "",
    *,
    proven: bool = False,
    expected: str = "",
    source: str = "",
    read: str = "",
    kind: str = "",
) -> Finding:
    """Return what was seen on a port.

    Args:
        fact: of what, the finding's part; None of an answer that is not read.
        remedy: what to type on the switch; empty if that is not known.
        proven: whether it is wrong; else it is not known, or a note.
        expected: in words; empty if nothing is expected.
        source: who expects it; empty if nothing is expected.
        read: the command or table that says what is seen.
        kind: of the finding, if it is not that of the fact.
    """
    wanted = f", expected {expected}" if expected else ""
    inside = "; ".join(filter(None, (source, f"read: {read}" if read else "")))
    what = f"{seen}{wanted}" + (f" ({inside})" if inside else "")
    values = {"seen": seen, "expected": expected, "source": source, "read": read}
    return Finding(
        kind or _KINDS[fact], what, remedy, part=fact or "", proven=proven, values=values
    )


def level(found: Finding) -> str:
    """Return how a finding counts, one of LEVELS: a note does not count in the verdict."""
    return WRONG if found.proven else NOTE if found.kind in _NOTES else UNKNOWN
