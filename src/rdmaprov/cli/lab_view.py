"""The lab as text: tables for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime

import click

from rdmaprov.lab import shapes, site, ssh
from rdmaprov.lab.faults import Fault
from rdmaprov.lab.model import Lab
from rdmaprov.lab.patience import Speed
from rdmaprov.lab.shapes import Shape
from rdmaprov.lab.virtual_machines import State

LINE_WIDTH = 100
INDENT = "    "
_STYLE = {State.UP: "green", State.BOOTING: "yellow", State.PAUSED: "yellow", State.DOWN: "red"}


def table(lab: Lab, states: Sequence[State]) -> None:
    """Print the nodes, one line for each."""
    from rich.console import Console
    from rich.table import Table

    rows = Table(box=None, pad_edge=False)
    for heading in ("node", "state", "ssh", "rails (RDMA device: netdev)"):
        rows.add_column(heading, no_wrap=heading != "rails (RDMA device: netdev)")
    for node, state in zip(lab.nodes, states, strict=True):
        rails = "  ".join(f"{rail.rdma}: {rail.netdev or '?'}" for rail in node.rails)
        rows.add_row(
            node.name, f"[{_STYLE[state]}]{state}[/]", f"{ssh.ADDRESS} port {node.port}", rails
        )
    Console().print(rows)


def saved_states(lab: Lab) -> None:
    """Print the saved states, one line for each, with the time of this machine's zone."""
    for state in lab.saved:
        saved_at = datetime.fromisoformat(state.saved_at).astimezone()
        nodes = ", ".join(state.nodes)
        click.echo(f"saved state {state.name}: {nodes}, {saved_at:%Y-%m-%d %H:%M:%S}")


def document(lab: Lab | None, states: Sequence[State], speed: Speed | None) -> dict[str, object]:
    """Return what `lab status --json` prints; no nodes if there is no lab."""
    if lab is None:
        return {"nodes": [], "saved": []}
    kinds = shapes.of_nodes(lab.shape, len(lab.nodes))
    nodes = [
        {
            "name": node.name,
            "state": str(state),
            "address": ssh.ADDRESS,
            "port": node.port,
            "rails": [
                {
                    "rail": rail.number,
                    "rdma": rail.rdma,
                    "netdev": rail.netdev,
                    "mac": rail.mac,
                    "address": entry.get("address"),
                }
                for rail, entry in zip(node.rails, site.rails(shape, number, node), strict=True)
            ],
        }
        for number, (node, state, shape) in enumerate(
            zip(lab.nodes, states, kinds, strict=True), start=1
        )
    ]
    settings: dict[str, object] = {
        "suite": lab.suite,
        "accel": str(lab.accel),
        "memory_mib": lab.memory_mib,
        "shape": lab.shape,
        "patience": speed.patience if speed else 1.0,
        "speed": asdict(speed) if speed else None,
    }
    saved = [asdict(state) for state in lab.saved]
    return {**settings, "site": lab.site, "nodes": nodes, "saved": saved}


def faults(catalogue: Iterable[Fault]) -> None:
    """Print the catalogue: name, effect and its end, what the fault stands for."""
    for fault in catalogue:
        click.secho(fault.name, bold=True)
        for text in (f"{fault.title} (until {fault.until}).", fault.stands_for):
            click.echo(click.wrap_text(text, LINE_WIDTH, INDENT, INDENT))


def shape_list(catalogue: Iterable[Shape]) -> None:
    """Print the shapes, one line for each."""
    for shape in catalogue:
        click.echo(f"{shape.name}: {shape.title}")
