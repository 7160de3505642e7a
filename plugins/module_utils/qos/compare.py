"""What of a port's DCB differs from the description, in words. Runs on the node."""

from __future__ import annotations

from ..plan import Refused
from .description import Description
from .state import Seen

_LISTED = 6


def pair(seen: str, wanted: str) -> tuple[str, str] | None:
    """Return both, or None if they are the same."""
    return None if seen == wanted else (seen, wanted)


def missing(seen: Seen, wanted: Description) -> list[tuple[int, int]]:
    """Return the entries that a port lacks, none where PCP is wanted.

    Of the 64 none may be left out: mlx5 writes priority 0 for an entry that is removed.
    """
    if wanted.trust == "pcp":
        return []
    return [each for each in enumerate(wanted.priorities) if each not in seen.entries]


def map_differs(seen: Seen, wanted: Description) -> tuple[str, str] | None:
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


def pfc_text(pfc: tuple[bool, ...]) -> str:
    """Return the priorities that have it."""
    return " ".join(str(priority) for priority, on in enumerate(pfc) if on) or "off"


def cable_differs(seen: Seen, wanted: Description) -> tuple[str, str] | None:
    """Compare it where the site sets buffers: mlx5e uses it only for those that a host sets.

    (en_dcbnl.c, mlx5e_dcbnl_ieee_setpfc: manual_buffer.)
    """
    if seen.buffer_bytes is None or not (wanted.buffer_bytes or wanted.priority_buffer):
        return None
    return pair(f"{seen.cable_length_m} m", f"{wanted.cable_length_m} m")


def shares(ets: Seen | Description) -> tuple[int, ...]:
    """Return shares of the classes that have one; a NIC may report some for others too.

    Where one class has all, mlx5e shows what the others share after it as theirs
    (en_dcbnl.c, mlx5e_dcbnl_ieee_getets).
    """
    pairs = list(zip(ets.tsa, ets.percent))  # noqa: B905 - Python 3.8 has no strict
    has_all = ("ets", 100) in pairs
    return tuple(
        percent if tsa == "ets" and (percent == 100 or not has_all) else 0 for tsa, percent in pairs
    )


def ets_text(ets: Seen | Description) -> str:
    """Return how each class is served, and each priority's class."""
    words = [
        f"{tc}:{tsa}" + (f" {percent}%" if percent else "")
        for tc, (tsa, percent) in enumerate(zip(ets.tsa, shares(ets)))  # noqa: B905
    ]
    classes = "".join(str(tc) for tc in ets.classes)
    return ", ".join(words) + f"; classes of priorities {classes}"


def with_buffers(seen: Seen, wanted: Description) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the receive buffers with ours in place."""
    maps, sizes = seen.priority_buffer or (), seen.buffer_bytes or ()
    return (
        tuple(wanted.priority_buffer.get(index, value) for index, value in enumerate(maps)),
        tuple(wanted.buffer_bytes.get(index, value) for index, value in enumerate(sizes)),
    )


def buffers_differ(seen: Seen, wanted: Description, netdev: str) -> tuple[str, str] | None:
    """Compare the receive buffers of which the site sets some; raise Refused if it has none."""
    if not wanted.priority_buffer and not wanted.buffer_bytes:
        return None
    if seen.priority_buffer is None or seen.buffer_bytes is None:
        raise Refused(
            f"{netdev}: the port shows no receive buffers: remove roce_qos_buffer_bytes and "
            "roce_qos_priority_buffer"
        )
    return pair(
        _buffer_text((seen.priority_buffer, seen.buffer_bytes)),
        _buffer_text(with_buffers(seen, wanted)),
    )


def _buffer_text(buffers: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    maps, sizes = (",".join(str(each) for each in values) for values in buffers)
    return f"of priorities {maps}, of {sizes} bytes"
