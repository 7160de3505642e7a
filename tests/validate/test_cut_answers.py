"""An answer that is cut, empty or another program's is an error: no test passes or fails by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from testinfra.backend.base import CommandResult
from tests.validate.runner import FakeHosts, judge

from rdmaprov.facts.text import END

FOREIGN = b"<html><body>502 Bad Gateway</body></html>\n"
# Its exit status alone is the answer.
SILENT = ("test -x",)
# An error that does not say where: a parser that trusts its input.
BUGS = ("KeyError", "IndexError", "TypeError", "ValueError", "AttributeError")


@pytest.fixture(scope="module")
def learnt(suite, fleet, nodes):
    hosts = FakeHosts({name: node.host() for name, node in nodes.items()})
    outcomes = judge(suite, fleet, hosts, only=fleet.nodes[0])
    return hosts, {outcome.test: outcome for outcome in outcomes}


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda text: text[: len(text) // 2],
    "half its lines": lambda text: text[: text.rfind(b"\n", 0, len(text) // 2) + 1],
    "no end": lambda text: text[: text.rfind(END.encode())],
    "half its end": lambda text: text[:-8],
    "empty": lambda _text: b"",
    "foreign": lambda _text: FOREIGN,
    "foreign with our end": lambda _text: FOREIGN + f"{END} 0\n".encode(),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_no_spoilt_answer_is_believed(spoil: Callable[[bytes], bytes], suite, fleet, nodes, learnt):
    hosts, healthy = learnt
    known = hosts["gpu1"].backend.known
    believed = []
    for command, result in known.items():
        tests = frozenset(name for name, each in healthy.items() if command in each.asked)
        if not tests or command.startswith(SILENT):
            continue
        text = spoil(result.stdout_bytes)
        outcomes = judged(suite, fleet, nodes, hosts, command, result, text, tests)
        believed += [
            f"{command[:80]} -> {text[-40:]!r}: {each.test} {each.state} {each.said[:120]}"
            for each in outcomes
            if command in each.asked and (each.state != "error" or each.said.startswith(BUGS))
        ]
    assert believed == []


def judged(suite, fleet, nodes, hosts, command: str, result: CommandResult, text: bytes, tests):
    known = hosts["gpu1"].backend.known
    altered = nodes["gpu1"].host({**known, command: replace(result, _stdout=text)})
    both = FakeHosts({"gpu1": altered, "gpu2": hosts["gpu2"]})
    return judge(suite, fleet, both, only=fleet.nodes[0], names=tests)
