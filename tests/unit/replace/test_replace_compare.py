"""What a new machine has otherwise: shown, written on a yes, and never what a group demands."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from rich.console import Console
from tests.unit.helpers.sites import GOOD, write
from tests.unit.replace.test_replace_accept import Scheduler
from tests.unit.replace.test_replace_parts import FACTS, RAIL

from rdmaprov.cli import node_proofs
from rdmaprov.cli.passwords import Passwords
from rdmaprov.cli.replace_looks import Looks
from rdmaprov.cli.replace_work import Asked, Work
from rdmaprov.cli.session import Prepared
from rdmaprov.discover import reach
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site
from rdmaprov.replace import hardware
from rdmaprov.replace.journal import Journal
from rdmaprov.replace.steps import PROOFS
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen

HOSTS = f"""\
---
nodes:
  hosts: {{n1: {{unit: 1}}, n2: {{unit: 2}}}}
  vars: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}
"""
# Of the old machine; a group demands the other one.
OWN = "---\n# measured by hand\nfabric_numa_nodes: 4\n"
GROUP = "---\nfabric_gpu_count: 8\nfabric_memory_bytes: 4T\n"
NODE = {
    **FACTS,
    "gpu_module": "",
    "rails": [
        {
            **RAIL,
            "path": ["0000:18:00.0"],
            "link_layer": "Ethernet",
            "state": "4: ACTIVE",
            "mtu_bytes": 9000,
            "manages_nvswitch": False,
            "driver": "mlx5_core",
            "default_route": False,
            "is_bond": False,
            "is_virtual": False,
            "ports": [],
            "addresses": [],
            "partitions": [],
            "unfit": "",
            "is_smi": False,
        }
    ],
    "gpus": [{"pci": "0000:1a:00.0", "path": ["0000:1a:00.0"], "numa_node": 0}],
}


class Lines(Screen):
    """Keeps what it is given."""

    def __init__(self):
        super().__init__(Console(quiet=True), Mask([]))
        self.lines: list[str] = []

    def show(self, line):
        self.lines.append(line.text)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"hosts.yml": HOSTS, "host_vars/n1.yml": OWN, "group_vars/nodes.yml": GROUP}
    site = write(tmp_path / "site", {**GOOD, **files})
    ready = Prepared(load_site(site), Passwords(None), Mask([]), Lines(), ())
    journal = Journal(tmp_path / "runs/replace", PROOFS)
    found = reach.NodeFacts({"n1": NODE}, {})
    monkeypatch.setattr(reach, "read_nodes", lambda *_: found)
    scheduler = Scheduler()
    return Work(Asked(site, ("n1",), {}, False, "", (), 0), ready, scheduler, scheduler, journal)


def text_of(work):
    return "\n".join(work.ready.screen.lines)


def test_own_variable_of_the_old_machine_is_shown_and_not_written_unasked(work):
    found = Looks(work).compare(["n1"])
    assert found.code is ExitCode.PENDING
    assert "Pass --yes" in found.text
    assert "n1: fabric_numa_nodes: the site has 4, the node 2\n" in text_of(work)
    assert (work.asked.site / "host_vars/n1.yml").read_text() == OWN


def test_own_variable_is_written_on_a_yes_and_a_group_s_demand_stays(work, monkeypatch):
    monkeypatch.setattr(
        "rdmaprov.cli.session.check_site",
        lambda site, *_: replace(work.ready, fleet=load_site(site)),
    )
    work.asked = replace(work.asked, yes=True)
    assert Looks(work).compare(["n1"]).is_ok
    said = text_of(work)
    assert (
        "n1: fabric_gpu_count: the site has 8, the node 1: set for its group, so it stays" in said
    )
    own = (work.asked.site / "host_vars/n1.yml").read_text()
    assert own == "---\n# measured by hand\nfabric_numa_nodes: 2\n"
    assert work.replaced.fleet.nodes[0].get("fabric_numa_nodes") == 2


def test_machine_that_was_returned_before_is_compared_with_its_successor(work):
    old = {**NODE, "rails": [{**RAIL, "card": "a088:c203:0099:9999"}]}
    hardware.keep(work.journal.directory, "n1", old)
    Looks(work).compare(["n1"])
    (line,) = [line for line in work.ready.screen.lines if line.startswith("n1: mlx5_0: ")]
    assert "GUID a088:c203:0099:9999" in line.partition(" → ")[0]
    assert "GUID a088:c203:0012:3456" in line.partition(" → ")[2]


def test_node_that_does_not_answer_is_unknown_and_drops_no_proof(work, monkeypatch):
    work.journal.bind("n1", "before")
    work.journal.keep("n1", "apply")
    gone = reach.NodeFacts({}, {"n1": "ssh: connection refused"})
    monkeypatch.setattr(reach, "read_nodes", lambda *_: gone)
    found = Looks(work).compare(["n1"])
    assert (found.code, found.text) == (ExitCode.UNKNOWN, "n1: ssh: connection refused")
    assert work.journal.has("n1", "apply")


@pytest.mark.program
def test_suite_runs_again_in_one_process_on_other_nodes(work, tmp_path):
    test = tmp_path / "test_mine.py"
    test.write_text("def test_node(host):\n    assert host.run('true').rc == 0\n")
    words = (str(test), "-p", "no:cacheprovider")
    for names in (("n1",), ("n1", "n2"), ("n2",)):
        found = node_proofs.validate_nodes(work.asked.site, work.only(names), *words)
        assert found.is_ok, found
        said = work.ready.screen.lines
        assert any(f"{len(names)} node" in line and "passed" in line for line in said), said
        said.clear()
