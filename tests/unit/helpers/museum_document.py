"""The museum for readers: docs/machines.md."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.unit.helpers import museum
from tests.unit.helpers.museum import MACHINES, Museum
from tests.unit.helpers.museum_node import MuseumNode
from tests.unit.helpers.museum_readers import READERS

_HEAD = """\
# Real machines

What real nodes said in public, in `tests/fixtures/machines/`. An expert wrote down what each shows;
tests require that the roles, the suite and `discover` read the same, and agree with each other. A
fact in parentheses is in no file that a reader takes. `make generate` writes this page.
The [README](../tests/fixtures/machines/README.md) there says how to add a machine."""
_TAUGHT = """\
## What they taught

Machines that were read wrongly before, and what was wrong."""
# Words for the keys of `expert`.
_WORDS = {
    "left_out_rails": "what is no rail",
    "ofed_version": "OFED's version",
    "ofed": "OFED",
    "pfc": "PFC",
    "ets": "ETS",
    "dscp_map": "DSCP map",
    "psid": "PSID",
    "pcie": "PCIe links",
    "gpus": "GPUs",
    "gids": "GIDs",
    "vfs": "virtual functions",
    "vlan": "VLAN",
    "mtu": "MTU",
    "nccl": "NCCL",
    "os": "system",
    "rate_gb_s": "rates",
    "lids": "LIDs",
    "numa_nodes": "NUMA nodes",
    "cable_length_m": "cable length",
    "bluefield_mode": "BlueField's mode",
}


def markdown() -> str:
    machines = [museum.load(MACHINES / name) for name in museum.names()]
    rows = [
        f"| {_cell(each.title)} | {_facts(each)} | {_cell(each.texts['not_known'])} "
        f"| {_links(each)} |"
        for each in machines
    ]
    head = ["| machine | what is read | what is not known | source |", "|---|---|---|---|"]
    return "\n".join([_HEAD, "", *head, *rows, "", _TAUGHT, "", *_taught(machines)]) + "\n"


def _taught(machines: list[Museum]) -> Iterator[str]:
    for each in machines:
        for lesson in each.taught:
            yield f"- {each.title} (`{each.name}`): {lesson}"


def _facts(machine: Museum) -> str:
    """Return the facts in words; what no reader takes in parentheses."""
    words = []
    with tempfile.TemporaryDirectory() as directory:
        node = MuseumNode(machine, Path(directory) / "node")
        for key, wanted in machine.facts.items():
            word = _WORDS.get(key, key.replace("_", " "))
            is_read = key in READERS and key not in machine.not_read and READERS[key](node, wanted)
            words.append(word if is_read else f"({word})")
    return ", ".join(words)


def _links(machine: Museum) -> str:
    """Return the sources' addresses, each once."""
    urls = dict.fromkeys(url for url, _ in machine.sources)
    return ", ".join(f"[{number}]({url})" for number, url in enumerate(urls, start=1))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
