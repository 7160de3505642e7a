"""The shape of a certificate, and of what the notary on a node answers."""

import re

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.stage_report import IN_FILES
from rdmaprov.bandwidth.floor_model import FloorVerdict
from rdmaprov.boundary import (
    RIGHT,
    WRONG,
    Check,
    boolean,
    fields,
    integer,
    list_of,
    mapping_to,
    number,
    text,
)
from rdmaprov.certificate.of_gate import RUNTIME
from rdmaprov.certificate.ssh_signature import KEY
from rdmaprov.certificate.statement import PREDICATE, TYPE, parse_time

MOST_NODES = 16_384
_WORD, _LINE = text(most=256), text(most=4096)
_SHA256 = text("[0-9a-f]{64}")
_RATE, _POSITIVE = number(1e9), number(1e15, least=1e-9)
_KEYS = list_of(text(KEY), 16)
_ARMOUR = "-----{} SSH SIGNATURE-----\n"  # PROTOCOL.sshsig, section 1
_SIGNATURE = text(
    f"({_ARMOUR.format('BEGIN')}[A-Za-z0-9+/=\n]*{_ARMOUR.format('END')})?", most=65_536
)


def _time(value: object) -> str | None:
    try:
        return RIGHT if isinstance(value, str) and parse_time(value) else WRONG
    except ValueError:
        return WRONG


def _either(*values: object) -> Check:
    return lambda value: RIGHT if any(value is each or value == each for each in values) else WRONG


def _or_null(check: Check) -> Check:
    return lambda value: RIGHT if value is None else check(value)


_RANK = fields(
    {"plane": _WORD, "bytes": integer(1), "rank": integer(0, 1 << 20), "median_us": _POSITIVE}
)
_NUMBER = fields({"what": _LINE, "gb_s": _RATE, "least_gb_s": _RATE})
_STAGE = fields(
    {
        "name": _either(*IN_FILES),
        "state": text("passed|failed|unknown|skipped"),
        "seconds": _RATE,
        "said": _LINE,
        "findings": integer(),
        "left_out": mapping_to(_LINE),
        "numbers": list_of(_NUMBER),
        "taken": mapping_to(mapping_to(_RATE, _WORD, MOST_NODES), _WORD, MOST_NODES),
    },
    optional=("taken",),
)
_ROW = fields(
    {
        "plane": _WORD,
        "collective": text("all_reduce|all_gather|reduce_scatter|all_to_all"),
        "bytes": integer(1),
        "in_place": boolean,
        "count": integer(),
        "median_us": _POSITIVE,
        "p99_us": _POSITIVE,
        "busbw_gb_s": _RATE,
    }
)
_FLOOR = fields(
    {
        "plane": _WORD,
        "bytes": integer(1),
        "measured_gb_s": _RATE,
        "floor_gb_s": _RATE,
        "derived_gb_s": _RATE,
        "ceiling_gb_s": _RATE,
        "most_gb_s": _or_null(_RATE),
        "algorithm": _WORD,
        "derivation": _LINE,
        "reason": _LINE,
        "verdict": _either(*(each.value for each in FloorVerdict)),
    }
)
_LOG = fields({"name": text(r"[^\x00/][^\x00]*", most=512), "bytes": integer(), "sha256": _SHA256})
_COUNTERSIGNATURE = fields(
    {
        "text": text(most=1 << 20),
        "key": text(f"({KEY})?"),
        "signature": _SIGNATURE,
        "missing": _LINE,
    }
)
_ASKED = fields(
    {
        "limit": _or_null(_LINE),
        "backend": _WORD,
        "sizes": list_of(integer(1), 64),
        "stages": list_of(_either(*IN_FILES), len(IN_FILES)),
        "soak_s": _RATE,
        "pairs": boolean,
        "ignore_validate": boolean,
        "resumed": boolean,
    }
)
_WAIVER = fields(
    {"rule": _WORD, "reason": _LINE, "nodes": list_of(_WORD, MOST_NODES), "found": _LINE}
)


def _own(value: object) -> str | None:
    """Check a node's part; its identity has as many rails as the site described."""
    rails = value.get("described") if isinstance(value, dict) else None
    count = len(rails) if isinstance(rails, list) else 0
    described = fields({"netdev": _WORD, "pci": _WORD, "rdma": _WORD}, optional=("rdma",))
    return fields(
        {
            "described": list_of(described, 256),
            "identity": shapes.identity(count),
            "runtime": fields(dict.fromkeys(RUNTIME, _WORD)),
            "site_sha256": _SHA256,
            "host_keys": _KEYS,
            "ranks": list_of(_RANK),
        }
    )(value)


STATEMENT = fields(
    {
        "_type": text(re.escape(TYPE)),
        "subject": list_of(fields({"name": _WORD, "digest": fields({"sha256": _SHA256})})),
        "predicateType": text(re.escape(PREDICATE)),
        "predicate": fields(
            {
                "id": text("[0-9a-f]{32}"),
                "rdmaprov": _WORD,
                "issued": _time,
                "valid_until": _time,
                "site": fields({"name": _LINE, "sha256": _SHA256}),
                "asked": _ASKED,
                "waivers": list_of(_WAIVER),
                "verdict": text("accepted|connected|refused|unknown|interrupted"),
                "backend": text("nccl|gloo"),
                "ranks": integer(2, 1 << 20),
                "stages": list_of(_STAGE, len(IN_FILES)),
                "rows": list_of(_ROW),
                "floors": list_of(_FLOOR, 4),
                "notes": list_of(_LINE),
                "logs": list_of(_LOG),
                "nodes": mapping_to(_own, _WORD, MOST_NODES),
                "countersignatures": mapping_to(_COUNTERSIGNATURE, _WORD, MOST_NODES),
            }
        ),
    }
)

_ERROR = text(most=1024)


def answer(checks: dict[str, Check]) -> Check:
    """Check an answer of the notary: these keys, or nothing but an error."""
    good, bad = fields({**checks, "error": text("")}), fields({"error": _ERROR})
    return lambda value: RIGHT if bad(value) is RIGHT else good(value)


SIGNED = answer({"signature": _SIGNATURE, "key": text(KEY)})
DONE = answer({})
CHECKED = answer({"code": integer(0, 4), "line": text(most=1 << 16)})


def identity(rails: int) -> Check:
    """Check the identity of a node with this number of rails."""
    return answer({"identity": shapes.identity(rails)})
