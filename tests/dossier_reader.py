"""A dossier judged by a stranger: a program of Python's library alone, as a vendor could write it.

It takes a dossier only if an allowed key signed it, it is young, and its parts agree. It throws
away `accused` and the texts of findings, then judges itself what pairs and nodes reached: it takes
nothing of `part.slow` and `gpu.links`. Other findings are readings, such as a link that is down.
"""

import json
import math
import statistics
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

OLDEST, UNREAD = timedelta(days=30), "not read"
MEASURED = ("part.slow", "gpu.links", "bandwidth.floor", "bandwidth.collective")
LEAST = 0.9  # of what is usual
OF_RUN = ("findings", "alone", "tests")


class Refused(Exception):
    """Why a dossier is not taken."""


def require(is_right, why):
    if not is_right:
        raise Refused(why)


def read(path, allowed, now):
    """Return a dossier that can be believed, without what it concludes itself."""
    data, signature = path.read_bytes(), Path(f"{path}.sig")
    require(signature.is_file(), "not signed")
    _verify(data, signature, allowed)
    try:
        document = json.loads(data, object_pairs_hook=_unique)
        _check(document, now)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(f"of another shape: {error!r}") from error
    del document["accused"]
    for row in document["findings"]:
        del row["what"], row["remedy"]
    return document


def _verify(data, signature, allowed):
    files = ["-s", str(signature), "-f", str(allowed)]
    asked = ["ssh-keygen", "-Y", "find-principals", *files]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    require(found.returncode == 0, "signed by a key that is not allowed")
    for who in found.stdout.split():
        asked = ["ssh-keygen", "-Y", "verify", "-n", "rdmaprov-dossier", "-I", who, *files]
        found = subprocess.run(asked, input=data, capture_output=True, check=False)
    require(found.returncode == 0, "the signature is not of this file")


def _unique(pairs):
    require(len(dict(pairs)) == len(pairs), "a key twice")
    return dict(pairs)


def _time(text):
    return datetime.fromisoformat(text).astimezone(UTC)


def _check(document, now):
    node, made = document["node"], _time(document["made"])
    require(document["schema"] == 1, "of another version")
    require(made <= now + timedelta(minutes=2), "made in the future")
    runs = {row["run"]: row for row in document["runs"]}
    digests = {row["sha256"] for row in runs.values()}
    require(len(digests) == len(runs) == len(document["runs"]), "a run twice")
    for row in runs.values():
        require(_time(row["started"]) <= _time(row["ended"]) <= made, "times of runs in disorder")
    own = runs[document["run"]]
    require(now - _time(own["ended"]) <= OLDEST, "older than 30 days")
    for name, rows in document.items():
        for row in rows if isinstance(rows, list) and name != "runs" else ():
            _check_row(row, name, runs)
            require((row["run"] == document["run"]) or name not in OF_RUN, f"{name} of another run")
    guids = [r["value"] for r in document["parts"] if "GUID" in r["what"] and r["value"] != UNREAD]
    require(len(set(guids)) == len(guids), "a serial number twice")
    require(all(node in row["nodes"] for row in document["findings"]), "a finding of another node")
    here = {each["run"]: each for each in document["history"]}
    require(len(here) == len(document["history"]) and own["run"] in here, "a history without it")
    for row in here.values():
        later = _time(row["time"]) > _time(own["started"])
        when = "this run" if row["run"] == own["run"] else "after" if later else "before"
        require(row["when"] == when, "before and after in disorder")
    _check_agreement(document, here[own["run"]])


def _check_row(row, name, runs):
    for value in row.values():
        require(not isinstance(value, float) or (math.isfinite(value) and value >= 0), "odd number")
    if not row["run"]:
        require(row["value"] == UNREAD, "a value without a run")
        return
    require(row["run"] in runs, "of a run that is not listed")
    run, time = runs[row["run"]], _time(row["time"])
    within = _time(run["started"]) <= time <= _time(run["ended"]) + timedelta(seconds=1)
    require(within if name == "tests" else row["time"] == run["started"], "time of another run")


def _check_agreement(document, here):
    alone = {row["node"]: row["gb_s"] for row in document["alone"]}
    require(here["alone_gb_s"] == alone.get(document["node"]), "history and measurement differ")
    for row in document["excluded"]:
        require(row["value"] is None or row["value"] >= row["least"], "excluded by no number")
    for row in document["tests"]:
        require(set(row["nodes"]) <= document["leaves"].keys(), "a test of unknown nodes")
    rows = [row for row in document["findings"] if row["proven"]]
    by_alone, by_tests = named_alone(document), named_by_tests(document)
    for row in rows:
        if row["kind"] == "gpu.links" and document["alone"]:
            require(by_alone, "gpu.links without a measurement that shows it")
        if row["kind"] == "part.slow" and row["level"] in ("node", "rail") and document["tests"]:
            require(by_tests, "part.slow without a measurement that shows it")
            is_rail = by_tests[0] == row["level"] == "rail"
            require(not is_rail or by_tests[2] == row["rail"], "the rail is another one")
    require(rows or not (by_alone or (by_tests and by_tests[3])), "a fault without a finding")


def name_part(document):
    """Return level, nodes, rail and whether that is proven; None where no part is at fault."""
    found = [named_by_reading(document), named_alone(document), named_by_tests(document)]
    return min(filter(None, found), key=lambda each: not each[3], default=None)


def named_by_reading(document):
    rows = [row for row in document["findings"] if row["kind"] not in MEASURED and row["level"]]
    row = min(rows, key=lambda row: not row["proven"], default=None)
    return row and (row["level"], frozenset(row["nodes"]), row["rail"], row["proven"])


def named_alone(document):
    """Return the node if it is slow by itself, beside most that are not."""
    rows = {row["node"]: row for row in document["alone"]}
    own = rows.pop(document["node"], None)
    good = [row for row in rows.values() if row["gb_s"] >= row["least_gb_s"]]
    is_slow = own and own["gb_s"] < own["least_gb_s"] and 2 * len(good) > len(rows)
    return ("node", frozenset([document["node"]]), None, True) if is_slow else None


def named_by_tests(document):
    node, leaf = document["node"], document["leaves"]
    rows = [r for r in document["tests"] if "gb_s" in r and len(r["nodes"]) == 2]
    whole = [r for r in rows if r["gpu"] is None and r["collective"] == "all_reduce"]
    rates = [r["gb_s"] for r in whole if node not in r["nodes"]]
    if not rates:
        return None
    least = LEAST * statistics.quantiles([*rates, *rates], n=4)[2]
    met = {name: [r for r in whole if name in r["nodes"]] for name in leaf}
    bad = {name: [r for r in own if r["gb_s"] < least] for name, own in met.items()}
    mine = frozenset(n for n in leaf if leaf[n] == leaf[node])
    across = {n: [r for r in met[n] if not mine.issuperset(r["nodes"])] for n in mine}
    slow = {n for n in mine if across[n] and all(r["gb_s"] < least for r in across[n])}
    others = [r for r in whole if mine.isdisjoint(r["nodes"])]
    if len(mine) >= 3 and slow == mine and all(r["gb_s"] >= least for r in others):
        return "leaf", mine, None, bool(others)
    if not bad[node]:
        return _misplaced(document)
    partners = {n for r in bad[node] for n in r["nodes"]} - {node}
    free = {n for n in partners if any(r["gb_s"] >= least for r in met[n])}
    if len(bad[node]) < len(met[node]) and len(partners) == 1 and free == partners:
        (other,) = partners
        if all(set(r["nodes"]) == {node, other} for r in bad[other]):
            return "pair", frozenset((node, other)), None, False
    if not free or len(partners) < 2:
        return None
    proven = len(bad[node]) == len(met[node])
    return _rail(node, rows, proven) or ("node", frozenset([node]), None, proven)


def _rail(node, rows, proven):
    single = [r for r in rows if r["gpu"] is not None and r["collective"] == "all_reduce"]
    rates = [r["gb_s"] for r in single if node not in r["nodes"]]
    mine = [r for r in single if node in r["nodes"] and r["rail"] is not None]
    if not rates or not mine:
        return None
    least = LEAST * statistics.median(rates)
    rails = {r["rail"] for r in mine if r["gb_s"] < least}
    always = rails - {r["rail"] for r in mine if r["gb_s"] >= least}
    found = list(always or rails)
    is_one = len(found) == 1
    return ("rail", frozenset([node]), found[0], proven and bool(always)) if is_one else None


def _misplaced(document):
    """Return the node if it is as far from its own leaf as from others; its cables are suspects."""
    node, leaf, near, far = document["node"], document["leaves"], [0.0][1:], [0.0][1:]
    for row in document["tests"]:
        if "us" in row and len({leaf[name] for name in row["nodes"]}) == 1:
            (far if node in row["nodes"] else near).append(row["us"])
    is_far = len(far) > 1 < len(near) and min(far) >= 1.08 * statistics.median(near)
    return ("node", frozenset([node]), None, False) if is_far else None
