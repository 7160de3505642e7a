"""What torch knows of a hang, read before the rank is ended."""

from __future__ import annotations

from collections.abc import Callable

MOST_CHARACTERS = 32_768


def flight_record(dump: Callable[[], object] | None = None) -> str:
    """Return the end of torch's flight recorder: its last collectives, as JSON that is cut.

    Args:
        dump: gives the record; torch's own by default.

    """
    try:
        if dump is None:
            from torch._C import _distributed_c10d

            dump = _distributed_c10d._dump_nccl_trace_json
        record = dump()
    except Exception as error:  # it is torch's private function, and this rank ends anyway
        return f"no flight record: {error}"[:MOST_CHARACTERS]
    text = record.decode("utf-8", "replace") if isinstance(record, bytes) else str(record)
    return text[-MOST_CHARACTERS:]
