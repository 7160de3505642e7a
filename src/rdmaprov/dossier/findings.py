"""What kept runs found at a node, in one form whatever the verb, and the part that they accuse."""

from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.dossier.kept import KeptRun, Row
from rdmaprov.finding.kinds import kinds

_OF_GPU = ("gpu.", "device.slow", "sums.wrong", "rank.hangs")
_KERNEL = ("gpu.xid", "node.fault", "link.pcie")
_ORDER = ("rail", "rank", "node", "pair", "leaf", "fleet", "")


def of_run(run: KeptRun, node: str) -> list[Row]:
    """Return what a run found at a node; causes first."""
    verb = run.data["verb"]
    key = {"accept": "findings", "watch": "findings", "subnet": "problems"}.get(verb, "checks")
    found = [_row(run, each) for each in run.data.get(key, ())]
    return [row for row in found if node in row["nodes"] and row["kind"] != "victim"]


def _row(run: KeptRun, each: Mapping[str, Any]) -> Row:
    node, rails = each.get("node", ""), each.get("rails", [])
    rail = each.get("rail", rails[0] if len(rails) == 1 else None)
    outcome, kind = each.get("outcome", ""), each.get("finding") or each.get("kind", "")
    usual = "" if rail is None else "rail"
    return {
        "kind": kind or each.get("test", "").partition("[")[0],
        "level": each.get("level", "") if "test" not in each and "text" not in each else usual,
        "nodes": each.get("nodes") or ([node] if node else []),
        "rail": rail,
        "leaf": each.get("leaf", ""),
        "part": each.get("part", ""),
        "proven": each.get("proven", outcome == "failed" or each.get("level") == "wrong"),
        "values": each.get("values", {}),
        "what": each.get("what") or each.get("text") or each.get("message", ""),
        "remedy": each.get("remedy", ""),
        "skipped": outcome == "skipped",
        **run.origin,
    }


def accused(rows: list[Row], node: str) -> Row | None:
    """Return the part that findings of a run accuse, the surest and smallest; None for none."""
    able = [row for row in rows if not row["skipped"] and "." in row["kind"] and has_part(row)]
    if not able:
        return None
    first = min(able, key=lambda row: (not row["proven"], _ORDER.index(row["level"])))
    part = first["part"] if first["kind"].startswith(_OF_GPU) else ""
    kind = "gpu" if first["kind"].startswith(_OF_GPU) else first["level"] or "node"
    names = {
        "gpu": f"{part or 'GPUs'} of {node}",
        "rail": f"rail {first['rail']} of {node}",
        "leaf": f"leaf {first['leaf'] or 'switch'}",
        "pair": "path between two nodes",
        "fleet": "fabric",
    }
    of = {key: first[key] for key in ("rail", "leaf", "proven", "kind", "run", "time", "command")}
    return {"part": names.get(kind, node), "of": kind, "gpu": part, **of, "why": first["what"]}


def has_part(row: Row) -> bool:
    """Return whether a finding is about something that can be replaced."""
    known = kinds().get(row["kind"])
    return known.part == "yes" if known else not row["kind"].startswith("test_")


def kernel_lines(run: KeptRun, rows: list[Row], node: str) -> Iterator[Row]:
    """Yield what the kernel logged at a node, as far as a run read it."""
    for row in rows:
        if row["kind"] in _KERNEL:
            yield run.field(row["part"] or row["kind"], row["what"], "journalctl -k -b")
    head = f"{node}: its kernel logged "
    for note in run.data.get("notes", ()):
        if note.startswith(head):
            yield run.field("needs no hand", note[len(head) :], "journalctl -k -b")
    own = run.data["nodes"].get(node, {})
    subject = own.get("subjects", {}).get("kernel_log", {})
    if subject.get("passed") and not subject.get("failed"):
        yield run.field("kernel log of this boot", "nothing that needs a hand", "journalctl -k -b")
