"""How the lab looks to its user: tables for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from rdmaprov.lab import site, ssh
from rdmaprov.lab.faults import Fault
from rdmaprov.lab.machines import State
from rdmaprov.lab.model import Lab

LINE_WIDTH = 100
INDENT = "    "
_STYLE = {State.UP: "green", State.BOOTING: "yellow", State.DOWN: "red"}


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


def document(lab: Lab | None, states: Sequence[State]) -> dict[str, object]:
    """Return the lab as `lab status --json` shows it; no nodes where there is no lab."""
    if lab is None:
        return {"nodes": []}
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
                    "address": site.rail_address(rail.number, number),
                }
                for rail in node.rails
            ],
        }
        for number, (node, state) in enumerate(zip(lab.nodes, states, strict=True), start=1)
    ]
    settings = {"suite": lab.suite, "accel": str(lab.accel), "memory_mib": lab.memory_mib}
    return {**settings, "site": lab.site, "nodes": nodes}


def faults(catalogue: Iterable[Fault]) -> None:
    """Print the catalogue: name, what is done until when, what it stands for."""
    for fault in catalogue:
        click.secho(fault.name, bold=True)
        for text in (f"{fault.title} (until {fault.until}).", fault.stands_for):
            click.echo(click.wrap_text(text, LINE_WIDTH, INDENT, INDENT))
