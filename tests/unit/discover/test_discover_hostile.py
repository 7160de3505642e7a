"""What a hostile node says to discover is not written, and what the site demands is kept."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, dictionaries, floats, integers, lists, none, recursive
from hypothesis.strategies import text as st_text
from tests.unit.helpers import sites
from tests.unit.helpers.discovered import FACTS

from rdmaprov.boundary import OddAnswer
from rdmaprov.cli import run
from rdmaprov.discover.reach import parse_facts
from rdmaprov.exit_codes import ExitCode

LIES = {
    "template in a netdev": ("rails", 0, "netdev", "{{ lookup('pipe', 'id') }}"),
    "template in the kernel": ("kernel", "{{ lookup('pipe', 'id') }}"),
    "statement": ("kernel", "6{% for x in y %}"),
    "netdev too long": ("rails", 0, "netdev", "e" * 16),
    "path as a netdev": ("rails", 0, "netdev", "../x"),
    "escape": ("rails", 0, "state", "\x1b[2J"),
    "direction": ("rails", 0, "firmware", "\u202e28"),
    "PCI address": ("rails", 0, "pci", "0000:18:00.9"),
    "address": ("rails", 0, "addresses", ["999.1.1.1/24"]),
    "prefix": ("rails", 0, "addresses", ["198.18.0.1/99"]),
    "rate": ("rails", 0, "gbps", 1e308),
    "rate of 400 digits": ("rails", 0, "gbps", 10**400),
    "text for a number": ("memory_bytes", "64G"),
    "truth for a number": ("numa_nodes", True),
    "negative": ("memory_bytes", -1),
    "list for a text": ("kernel", ["6.8"]),
    "too many": ("gpus", [{"pci": "0000:18:00.0", "path": [], "numa_node": 0}] * 257),
    "module": ("gpu_module", "evil"),
    "unknown key": ("more", 1),
}


# The agent is right, and the collector is not.
AGENT = f'#!/bin/sh\n[ "$1" = - ] || exec {sys.executable} "$@"\n'


def lie(facts, *path):
    *places, last, value = path
    target = facts
    for place in places:
        target = target[place]
    target[last] = value
    return json.dumps(facts)


@pytest.mark.parametrize("path", LIES.values(), ids=LIES)
def test_fact_that_no_machine_has_makes_its_node_unknown(path):
    facts = json.loads(json.dumps(FACTS))
    assert parse_facts(json.dumps(facts)) == facts
    with pytest.raises(OddAnswer, match=r"^its answer has a ") as refused:
        parse_facts(lie(facts, *path))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "text", ["", "[", "null", "[]", "{}", "NaN", '"x"', "[" * 100_000, '{"kernel": NaN}', "1e999",
             '{"kernel": "\\ud800"}', " " * 2_000_000]
)  # fmt: skip
def test_answer_that_is_no_collector_s_makes_its_node_unknown(text: str):
    with pytest.raises(OddAnswer, match=r"^its answer "):
        parse_facts(text)


@given(
    recursive(
        none() | booleans() | integers() | floats() | st_text(),
        lambda inner: lists(inner) | dictionaries(st_text(), inner),
    )
)
def test_no_answer_is_an_error_of_ours(document):
    with pytest.raises(OddAnswer) as refused:
        parse_facts(json.dumps(document))
    assert str(refused.value).isprintable()


@pytest.mark.program
def test_hostile_node_is_named_and_nothing_of_it_is_written(tmp_path, capsys):
    canary = tmp_path / "canary"
    liar = tmp_path / "python3"
    evil = {"kernel": f"{{{{ lookup('pipe', 'touch {canary}') }}}}"}
    liar.write_text(f"{AGENT}cat <<'END'\n{json.dumps(evil)}\nEND\n")
    liar.chmod(0o700)
    local = f"ansible_connection: local\nansible_python_interpreter: {liar}\n"
    site = sites.write(tmp_path / "site", {**sites.GOOD, "group_vars/nodes.yml": local})
    assert run(["discover", str(site), "--limit", "n1", "--merge"]) == ExitCode.UNKNOWN
    assert "could not read 1 of 1 node; e.g. n1: its answer has a" in capsys.readouterr().err
    assert not (site / "host_vars").exists()
    run(["check", str(site)])
    assert not canary.exists()


@pytest.mark.program
def test_every_node_that_could_not_be_read_is_named(tmp_path, capsys):
    liar = tmp_path / "python3"
    liar.write_text(f"{AGENT}printf '%s\\033[2J' $$ >&2; exit 3\n")
    liar.chmod(0o700)
    local = f"ansible_connection: local\nansible_python_interpreter: {liar}\n"
    site = sites.write(tmp_path / "site", {**sites.GOOD, "group_vars/nodes.yml": local})
    assert run(["discover", str(site)]) == ExitCode.UNKNOWN
    said = capsys.readouterr().err
    assert {line.partition(":")[0] for line in said.splitlines()} >= {"n1", "n2"}
    assert "\x1b" not in said
    assert "error: could not read 2 of 2 nodes" in said


@pytest.mark.program
def test_difference_is_shown_and_kept_unless_it_is_to_be_replaced(tmp_path, capsys):
    local = f"ansible_connection: local\nansible_python_interpreter: {sys.executable}\n"
    files = {"group_vars/nodes.yml": local, "host_vars/n1.yml": "fabric_gpu_count: 8\n"}
    site = sites.write(tmp_path / "site", {**sites.GOOD, **files})
    words = ["discover", str(site), "--limit", "n1", "--merge"]
    assert run(words) == ExitCode.UNKNOWN  # this machine has no rail
    said = capsys.readouterr().err
    assert "n1: fabric_gpu_count: the site has 8, the node 0: kept; --merge --replace" in said
    written = site / "host_vars" / "n1.yml"
    assert "fabric_gpu_count: 8\n" in written.read_text()
    assert run([*words, "--replace"]) == ExitCode.UNKNOWN
    assert "fabric_gpu_count: 0\n" in written.read_text()
    assert run(["discover", str(site), "--replace"]) == ExitCode.USAGE
