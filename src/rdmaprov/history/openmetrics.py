"""Gauges as text that both OpenMetrics and node_exporter's textfile collector read.

That collector reads Prometheus's text format, which knows no state sets and no time of a sample:
so all are gauges, and a state has a sample of 0 or 1 for each word.

https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md;
https://github.com/prometheus/node_exporter#textfile-collector
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True)
class Gauge:
    """A metric with its samples.

    Args:
        name: of it; ends with the unit, if it has one.
        unit: its base unit; empty for none.
        words: what it is, in one line without quotes.
        samples: labels and value of each.

    """

    name: str
    unit: str
    words: str
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
