"""Published measurements of collectives, for the floor's tests and for docs/measurements.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from tests.tables import cases

from rdmaprov.bandwidth import gpus
from rdmaprov.bandwidth.efficiency import DEFAULT_BYTES
from rdmaprov.bandwidth.fabric import Fabric, parse_slot
from rdmaprov.bandwidth.floor import derive, judge
from rdmaprov.bandwidth.floor_model import Judgement
from rdmaprov.bandwidth.rates import format_percent, parse_sizes

_FILE = Path(__file__).parent / "fixtures/acceptance/allreduce_published.yml"


@dataclass(frozen=True)
class Published:
    """A measurement: its fabric, its number, and what its source says of it."""

    fabric: Fabric
    busbw: float
    healthy: bool
    algorithm: str
    told_by: str
    row: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        said = self.row.get("size")
        return parse_sizes(said)[0] if said else DEFAULT_BYTES

    @property
    def judgement(self) -> Judgement:
        wanted = derive(self.fabric, self.algorithm, size_bytes=self.size_bytes)
        return judge(self.fabric, wanted, self.busbw)

    @property
    def name(self) -> str:
        return f"{self.row['source']}, {self.fabric.nodes} nodes, {self.busbw:g}"


def measurements() -> list[Published]:
    found = []
    for row in yaml.load(_FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
        given = {"nvlink_nodes": 1, "collective": "all_reduce", "efa": False}
        fabric = Fabric(
            *(row["nodes"], row["gpus"], row["rails"] or 1, row["gbps"] or 100),
            **{name: row.get(name, usual) for name, usual in given.items()},
        )
        slot = parse_slot(row.get("pcie", "5x16"))
        if alone := gpus.intra_node([row["gpu"]] if "gpu" in row else [], slot):
            fabric = replace(fabric, intra_node_gb_s=alone.gb_s, intra_node_by=alone.algorithm)
        healthy = row["said"] == "healthy"
        told_by = row.get("told_by", "")
        algorithm = row.get("algorithm", "auto")
        found.append(Published(fabric, row["busbw"], healthy, algorithm, told_by, row))
    return found


def _link(source: str) -> str:
    repository, mark, number = source.partition("#")
    if not mark:
        return source
    return f"[{source}](https://github.com/{repository}/issues/{number})"


def _line(item: Published) -> str:
    wanted = item.judgement.floor
    cells = [
        f"{item.fabric.nodes} × {item.fabric.gpus_per_node}",
        f"{item.row['rails']} × {item.row['gbps']:g}G" if item.row["rails"] else "none",
        f"{item.busbw:g}",
        format_percent(item.busbw / wanted.ceiling_gb_s),
        f"{wanted.floor_gb_s:.4g}",
        item.row["said"] + (f": {item.row['cause']}" if "cause" in item.row else ""),
        item.told_by,
        (f"`{item.row['collective']}`: " if "collective" in item.row else "")
        + item.row["what"]
        + (f" ({item.row['unstated']})" if "unstated" in item.row else ""),
        _link(item.row["source"]),
    ]
    return "| " + " | ".join(cells) + " |"


def table() -> str:
    head = (
        "| nodes × GPUs | rails | busbw, GB/s | of the ceiling | floor | its source says "
        "| shown by | what | source |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "\n".join(_line(item) for item in measurements()) + "\n"


HEAD: str = cases(__file__, "head")


def markdown() -> str:
    return HEAD + table()


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
