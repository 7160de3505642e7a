"""The museum for readers: docs/machines.md."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.tables import cases
from tests.unit.helpers import museum
from tests.unit.helpers.museum import MACHINES, Museum
from tests.unit.helpers.museum_node import MuseumNode
from tests.unit.helpers.museum_readers import READERS

_HEAD = cases(__file__, "head")
_TAUGHT = cases(__file__, "taught")
# Words for the keys of `expert`.
_WORDS = cases(__file__, "_words")


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
    urls = dict.fromkeys(url for url, _ in machine.sources)
    return ", ".join(f"[{number}]({url})" for number, url in enumerate(urls, start=1))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    import click

    click.echo(markdown(), nl=False)
