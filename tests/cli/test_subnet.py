"""`rdmaprov subnet`: what it prints, keeps and refuses, with tools that print a fabric's texts."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest
from tests.program import ended_here
from tests.tables import cases
from tests.unit.helpers.subnet_texts import DISCOVERY, ERRORS, MANAGERS, STATES, TABLES, Texts

from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.read_run import read_run
from rdmaprov.lab.ib_topology import Topology, write_site
from rdmaprov.subnet.names import AGGREGATION

SCHEMA = Path(__file__).parents[2] / "docs/results.schema.json"
PKEYS = Path(__file__).parents[1] / "fixtures/subnet/ibsim/smpquery-pkeys.txt"
PRINTS = {
    "ibnetdiscover": DISCOVERY,
    "dump_fts": TABLES,
    "iblinkinfo": STATES,
    "ibqueryerrors": ERRORS,
    "sminfo": MANAGERS,
    "smpquery": PKEYS.name,
}
# Of all ports of a LID: as perfquery answers `-l LID FIRST-LAST`.
PERFQUERY = cases(__file__, "perfquery")


@pytest.fixture
def texts(tmp_path, monkeypatch):
    texts = Texts(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(PKEYS, texts.directory)
    scripts = {name: f"cat '{texts.directory}/{file}'" for name, file in PRINTS.items()}
    for name, script in {**scripts, "perfquery": PERFQUERY}.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    write_site(tmp_path / "site", Topology(rails=2))
    return texts


@pytest.fixture
def judge(texts, capfd):  # noqa: ARG001 - the tools print them
    return lambda *words, here=("--here",): ended_here(capfd, "subnet", "site", *here, *words)


def results():
    (path,) = Path("runs").glob("*-subnet/results.json")
    data = json.loads(path.read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(data)
    return data, path.with_name("report.html").read_text()


def test_healthy_subnet_ends_with_0_and_a_page(judge):
    code, said, error = judge()
    assert (code, error) == (ExitCode.OK, "")
    assert (
        "healthy: 16 nodes, 32 rails; 8 switches, 32 HCAs, 64 links, 0 credit loops;"
        " read from this machine\n"
    ) in said
    data, page = results()
    assert data["subnets"][0]["patterns"]["ringx"]["excess"] == 1
    assert "16 nodes: 16 passed" in page
    digest = read_run(next(Path("runs").glob("*-subnet")))
    assert (digest.troubles, set(digest.states.values())) == ([], {"passed"})


def test_fault_is_named_by_node_and_rail_in_text_json_and_page(judge, texts):
    texts.gone("node003 mlx5_1")
    code, said, _ = judge("--json", "out.json")
    assert code == ExitCode.FAILED
    assert said.startswith("wrong: missing: node003 rail 1 is missing: no link, or the port is")
    data, page = results()
    assert json.loads(Path("out.json").read_text()) == data
    (problem,) = data["problems"]
    assert (problem["node"], problem["rails"], problem["kind"]) == ("node003", [1], "missing")
    assert data["nodes"]["node003"]["state"] == "failed"
    assert "1 failed (node003)" in page
    (trouble,) = read_run(next(Path("runs").glob("*-subnet"))).troubles
    assert (trouble.node, trouble.rail, trouble.proven) == ("node003", 1, True)
    assert "Look at the port on the node (ibstat)" in page


def test_saved_texts_are_judged_alike_without_the_site(judge, capfd):
    assert judge("--save", "kept")[0] == ExitCode.OK
    code, said, _ = ended_here(capfd, "explain", "subnet", "kept")
    assert (code, "healthy: 8 switches" in said) == (ExitCode.OK, True)
    assert results()[0]["saved"] == "kept"


def reach_nodes_locally():
    hosts = Path("site/hosts.yml")
    local = "{ansible_connection: local, ansible_python_interpreter: '" + sys.executable + "'}"
    hosts.write_text(hosts.read_text() + f"  vars: {local}\n")


def want_sharp(texts, tool):
    """Have the site want SHARP, each switch be able to reduce, and sharp_hello run a script."""
    variables = Path("site/group_vars/all.yml")
    variables.write_text(variables.read_text() + "fabric_sharp: wanted\n")
    discovered = texts.directory / DISCOVERY
    near = re.compile(r"^SW +(\d+) +\d+ (0x\w+) .*\( '(\S+)' - ", re.MULTILINE)
    with discovered.open("r+") as lines:
        for number, (lid, guid, name) in enumerate(sorted(set(near.findall(lines.read())))):
            own = f"CA {900 + number} 1 0x{0xA000 + number:016x}"
            lines.write(f"{own} 4x HDR - SW {lid} 41 {guid} ( '{AGGREGATION}' - '{name}' )\n")
    program = texts.directory.parent / "tools/sharp_hello"
    program.write_text(f"#!/bin/sh\n{tool}\n")
    program.chmod(0o755)


def test_sharp_job_is_asked_for_on_each_rail_of_the_node_that_was_read(judge, texts):
    reach_nodes_locally()
    want_sharp(
        texts, 'test "$2" != mlx5_1:1 || { echo "ERROR no tree"; exit 1; }; echo Test Passed.'
    )
    code, said, _ = judge("--from", "node007", here=())
    assert code == ExitCode.FAILED, said
    assert (
        "wrong: sharp: node007 rail 1 gets no SHARP job, which the site wants (fabric_sharp):"
        " sharp_hello on node007: ERROR no tree\n"
    ) in said
    data, _ = results()
    assert [rail["state"] for rail in data["nodes"]["node007"]["rails"]] == ["passed", "failed"]
    (log,) = Path("runs").glob("*-subnet/logs/tools.log")
    assert "node007: sharp_hello: Test Passed." in log.read_text()


def test_sharp_that_is_wanted_and_given_is_not_mentioned(judge, texts):
    """The texts lack the other ends of the aggregation nodes' links, so the rest is unknown."""
    want_sharp(texts, "echo Test Passed.")
    _, said, _ = judge()
    assert "SHARP" not in said


def test_nodes_are_asked_over_their_own_connection(judge):
    reach_nodes_locally()
    code, said, _ = judge("--from", "node007,node001", here=())
    assert code == ExitCode.OK, said
    assert "read from node007" in said


def test_machine_without_access_is_unknown_and_says_why(judge, tmp_path):
    program = tmp_path / "tools/ibnetdiscover"
    program.write_text('#!/bin/sh\necho "can\'t open UMAD port ((null):0)" >&2; exit 255\n')
    code, said, _ = judge("--save", "kept")
    assert code == ExitCode.UNKNOWN
    assert said.startswith(
        "unknown: not verified: this machine: ibnetdiscover cannot open the umad device on this"
        " machine: run as root there"
    )
    assert "unknown: 16 nodes, 32 rails; nothing was read\n" in said
    data, _ = results()
    assert (data["from"], data["saved"], Path("kept").exists()) == ("", None, False)


def test_names_from_a_fabric_reach_no_terminal_raw(judge, texts):
    texts.edit(DISCOVERY, "leaf-p1-r0", "leaf\x1b[31m\u202e")
    for words in ((), ("--json", "-")):
        said = "".join(judge(*words)[1:])
        assert "\x1b" not in said
        assert "\u202e" not in said
