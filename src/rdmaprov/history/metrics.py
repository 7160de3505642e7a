"""What the runs of a site say, as metrics; docs/metrics.md lists them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import rdmaprov
from rdmaprov.history.answer import History
from rdmaprov.history.from_accept import FLEET
from rdmaprov.runs.files import write_whole

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True)
class Gauge:
    """A metric with its samples."""

    name: str  # of it; ends with the unit, if it has one
    unit: str  # its base unit; empty for none
    words: str  # what it is, in one line without quotes
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """Add a sample."""
        self.samples.append((labels, value))

    def add_state(self, states: Iterable[str], now: str, **labels: str) -> None:
        """Add a sample for each state: 1 for the one that is, 0 for the others."""
        for each in states:
            self.add(float(each == now), **labels, state=each)


def openmetrics_text(gauges: Iterable[Gauge]) -> str:
    """Return gauges as a text, without those that have no sample."""
    lines = [line for gauge in gauges if gauge.samples for line in _lines(gauge)]
    return "".join(f"{line}\n" for line in (*lines, "# EOF"))


def _lines(gauge: Gauge) -> Iterator[str]:
    yield f"# TYPE {gauge.name} gauge"
    if gauge.unit:
        yield f"# UNIT {gauge.name} {gauge.unit}"
    yield f"# HELP {gauge.name} {gauge.words}"
    for labels, value in gauge.samples:
        own = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
        yield f"{gauge.name}{{{own}}} {int(value) if value.is_integer() else repr(value)}"


_GB = 1e9
RUN_STATES = ("ok", "failed", "unknown", "pending", "interrupted")
NODE_STATES = ("passed", "failed", "pending", "unknown")
STAGE_STATES = ("passed", "failed", "unknown", "skipped")
# In the words of all verbs; whatever else a node is, nobody knows.
_NODE_STATE = {
    "passed": "passed",
    "unchanged": "passed",
    "changed": "passed",
    "failed": "failed",
    "pending": "pending",
}


def metrics_text(found: History) -> str:
    """Return the metrics of a site as text, which is valid OpenMetrics and Prometheus's format."""
    site = site_label(found.site)
    gauges = [*_of_runs(found, site), *_of_nodes(found, site), *_of_fabric(found, site)]
    return openmetrics_text(gauges)


def site_label(site: Path) -> str:
    """Return how others know a site: the name of its directory."""
    return site.resolve().name or str(site)


def write_metrics(found: History, file: Path) -> None:
    """Write a site's metrics, or raise OSError; a reader sees the old file or the new one."""
    # node_exporter is another user. Names of nodes and states are no secrets.
    write_whole(file, metrics_text(found), mode=0o644)


def _of_runs(found: History, site: str) -> list[Gauge]:
    info = Gauge("rdmaprov_info", "", "The version of rdmaprov that wrote this; always 1.")
    info.add(1.0, site=site, version=rdmaprov.__version__)
    state = Gauge(
        "rdmaprov_run_state", "", "Whether the newest run of a verb ended in this state: 1, else 0."
    )
    ended = Gauge(
        "rdmaprov_run_timestamp_seconds", "seconds", "When the newest run of a verb ended."
    )
    took = Gauge(
        "rdmaprov_run_duration_seconds", "seconds", "How long the newest run of a verb took."
    )
    troubles = Gauge(
        "rdmaprov_run_findings",
        "",
        "Checks and findings of the newest run of a verb, each once for a node.",
    )
    for verb, run in found.newest.runs.items():
        state.add_state(RUN_STATES, run.verdict, site=site, verb=verb)
        ended.add(run.started + run.seconds, site=site, verb=verb)
        took.add(run.seconds, site=site, verb=verb)
        troubles.add(float(found.newest.troubles[verb]), site=site, verb=verb)
    unread = Gauge("rdmaprov_unreadable_runs", "", "Runs of any site whose results are damaged.")
    unread.add(float(len(found.damaged)), site=site)
    return [info, state, ended, took, troubles, unread]


def _of_nodes(found: History, site: str) -> list[Gauge]:
    state = Gauge(
        "rdmaprov_node_state", "", "Whether a node was in this state in the newest run: 1, else 0."
    )
    proof = Gauge(
        "rdmaprov_node_last_proof_timestamp_seconds",
        "seconds",
        "When the newest run ended in which a node passed; missing if none did.",
    )
    for node, verbs in found.nodes.items():
        for verb, own in verbs.items():
            now = _NODE_STATE.get(str(own["state"]), "unknown")
            state.add_state(NODE_STATES, now, site=site, node=node, verb=verb)
            if isinstance(own["good"], float):
                proof.add(own["good"], site=site, node=node, verb=verb)
    return [state, proof]


def _of_fabric(found: History, site: str) -> list[Gauge]:
    stage = Gauge(
        "rdmaprov_stage_state",
        "",
        "Whether a stage of the newest acceptance ended in this state: 1, else 0.",
    )
    for name, now in found.newest.stages.items():
        stage.add_state(STAGE_STATES, now, site=site, stage=name)
    busbw = Gauge(
        "rdmaprov_bus_bandwidth_bytes_per_second",
        "bytes_per_second",
        "Bus bandwidth of the largest message of all nodes together, by plane.",
    )
    for track in found.fleet:
        own = track.series
        if own.bytes and track.runs[-1].id == found.newest.runs["accept"].id:
            plane = f"rail {own.rail}" if own.rail is not None else own.what.removeprefix(FLEET)
            size = str(own.bytes)
            busbw.add(track.values[-1] * _GB, site=site, plane=plane, message_bytes=size)
    rail = Gauge(
        "rdmaprov_rail_sent_bytes_per_second",
        "bytes_per_second",
        "What a rail sent while it was busy, in the newest acceptance.",
    )
    for (node, number), rate in found.newest.rails.items():
        rail.add(rate * _GB, site=site, node=node, rail=str(number))
    worse = Gauge(
        "rdmaprov_measurements_worse", "", "Measurements that became worse, and still are."
    )
    count = sum(each.is_worse and each.holds for each in found.changes)
    worse.add(float(count), site=site)
    until = Gauge(
        "rdmaprov_certificate_expiry_timestamp_seconds",
        "seconds",
        "Until when the newest certificate is valid; missing without one.",
    )
    if found.newest.valid_until is not None:
        until.add(found.newest.valid_until, site=site)
    return [stage, busbw, rail, worse, until]
