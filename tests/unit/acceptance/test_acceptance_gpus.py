"""GPUs that are lost, split, used or unlike the others, and what nvidia-smi prints of them."""

import json
import os
import sys

import pytest
from tests.tables import cases

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.evidence import judge as evidence
from rdmaprov.acceptance.preflight import gpus as gpu_checks
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.boundary import RIGHT, Document
from rdmaprov.errors import UsageError
from rdmaprov.finding.finding import Finding
from rdmaprov.node import gpus as driver_reader
from rdmaprov.node.gpus import parse_gpus
from rdmaprov.probe.connection import Command
from rdmaprov.probe.errors import NodeError

UUID = "GPU-00000000-0000-0000-0000-00000000000"
ROWS = "".join(
    f"{n}, NVIDIA H100 80GB HBM3, 81559, 81008, 00000000:1{n}:00.0, {UUID}{n}, 165{n}, Disabled\n"
    for n in range(8)
)
# In public logs of nvidia-smi: fields that are [GPU is lost], or a line in place of the row.
LOST_ROW = "3" + ", [GPU is lost]" * 7 + "\n"
LOST_LINE = "Unable to determine the device handle for GPU0000:08:00.0: Unknown Error\n"


def gpus(count):
    found, _ = parse_gpus("".join(ROWS.splitlines(keepends=True)[:count]))
    return {"gpus": {"gpus": found, "lost": [], "processes": [], "error": ""}}


def test_eight_whole_gpus():
    found, lost = parse_gpus(ROWS)
    assert (len(found), lost) == (8, [])
    assert found[7] == {
        "index": "7",
        "name": "NVIDIA H100 80GB HBM3",
        "total_mib": "81559",
        "free_mib": "81008",
        "pci": "00000000:17:00.0",
        "uuid": f"{UUID}7",
        "serial": "1657",
        "mig": False,
    }


@pytest.mark.parametrize("gone", [LOST_ROW, LOST_LINE])
def test_a_lost_gpu_is_none_of_the_gpus(gone):
    rows = ROWS.splitlines(keepends=True)
    rows[3] = gone
    found, lost = parse_gpus("".join(rows))
    assert [each["index"] for each in found] == ["0", "1", "2", "4", "5", "6", "7"]
    assert lost == [gone.strip()]


@pytest.mark.parametrize("unknown", ["[N/A]", "[Not Supported]", "N/A", ""])
def test_a_number_that_the_driver_does_not_know(unknown, nodes):
    found, _ = parse_gpus(
        f"0, NVIDIA GB10, {unknown}, {unknown}, 0000000F:01:00.0, {UUID}0, {unknown}, [N/A]\n"
    )
    assert (found[0]["total_mib"], found[0]["free_mib"], found[0]["mig"]) == ("", "", False)
    assert found[0]["serial"] == ""
    seen = {"gpus": found, "lost": [], "processes": [], "error": ""}
    assert list(gpu_checks.findings(nodes[0], seen)) == []
    assert gpu_checks.free_bytes({"n1": {"gpus": seen}}) == 8 << 30


@pytest.mark.parametrize(("more", "is_split"), [("", False), (", Enabled", True)])
def test_gpu_is_split_if_its_driver_knows_mig_and_says_so(more, is_split):
    found, _ = parse_gpus(f"0, NVIDIA A100, 81920, 81000, 00000000:07:00.0, {UUID}0, 165{more}\n")
    assert found[0]["mig"] is is_split


def judge_counts(nodes, *counts):
    known = {node.name: gpus(count) for node, count in zip(nodes, counts, strict=False)}
    return list(gpu_checks.odd_counts(nodes, known))


def test_seven_gpus_beside_eight_are_a_finding_though_the_site_names_no_number(nodes):
    (found,) = judge_counts(nodes, 8, 8, 7, 8)
    assert (found.node, found.proven) == ("n3", True)
    assert "7 GPUs, expected 8 as on 3 of 4 nodes" in found.what


def test_of_two_nodes_the_one_with_fewer_has_lost_one(nodes):
    (found,) = judge_counts(nodes, 8, 7)
    assert found.node == "n2"


def test_equal_nodes_have_no_findings(nodes):
    assert judge_counts(nodes, 4, 4, 4, 4) == []
    assert judge_counts(nodes, 0, 0) == []


@pytest.mark.parametrize("counts", [(8, 7), (0, 0)])
def test_no_job_is_made_without_one_number_of_gpus(nodes, counts):
    facts = {node.name: gpus(count) for node, count in zip(nodes, counts, strict=False)}
    site = GateSite(nodes[:2], facts, "nccl", Rendezvous("192.0.2.1", {}))
    with pytest.raises(UsageError, match="the same number of GPUs on each node"):
        _ = site.per_node


def test_a_job_that_came_in_between_disturbs_and_proves_nothing():
    after: dict[str, Document] = {"n1": {"processes": ["417, python3"]}, "n2": {"processes": []}}
    others = gpu_checks.disturbed(after, {})
    (found,) = gpu_checks.disturbance_findings(others)
    assert (found.node, found.proven) == ("n1", False)
    assert "process 417, python3" in found.what
    slow = Finding("traffic.share", "sent 1 GB, expected 2", "Check it", "n1", 0)
    other = Finding("traffic.share", "sent 1 GB, expected 2", "Check it", "n2", 0)
    fleet = Finding("bandwidth.floor", "slow", "Check it")
    assert [f.proven for f in evidence.excuse([slow, other, fleet], others)] == [False, True, False]
    assert "another job ran on n1" in evidence.excuse([slow], others)[0].what


def test_what_is_left_of_the_run_itself_is_no_other_job():
    assert gpu_checks.disturbed({"n1": {"processes": ["417, python3"]}}, {"n1": (417,)}) == {}
    assert evidence.excuse([Finding("bandwidth.floor", "slow", "Check it")], {})[0].proven


NVIDIA_SMI = cases(__file__, "nvidia_smi")


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Return what makes an nvidia-smi of these commands the one on this machine."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def make(mig):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(NVIDIA_SMI.format(mig=mig))
        tool.chmod(0o755)

    return make


def ask(here, verb):
    request = {"verb": verb, "python": sys.executable, "rails": []}
    check = shapes.preflight(0) if verb == "preflight" else shapes.counters(0)
    return ask_nodes(here, {"n1": program_command("reader", request, 60)}, lambda _: check)["n1"]


ROW = "0, H100, 81559, 81008, 00000000:0F:00.0, GPU-0, 1650, Disabled"
ETH0, LLDP = ', {"name": "eth0"}', '{"lldp": [{"interface": [{"name": "lo"}%s]}]}'
OLD = "echo 'Field \"mig.mode.current\" is not a valid field to query.'; exit 2"


@pytest.mark.parametrize(
    ("mig", "count", "lost"),
    [
        (f"printf '{ROW}\\n'", 1, 0),
        (f"printf '{ROW}\\n{LOST_LINE.strip()}\\n'; exit 15", 1, 1),
        (OLD, 1, 0),
    ],
)
def test_the_reader_asks_the_driver(here, driver, mig, count, lost):
    driver(mig)
    seen = ask(here, "preflight")["gpus"]
    assert (len(seen["gpus"]), len(seen["lost"]), seen["error"]) == (count, lost, "")
    assert seen["processes"] == ["417, python3"]


def test_one_call_has_the_uuids_too(driver):
    driver(f"printf '{ROW}\\n'")
    seen = driver_reader.read_gpus()
    assert seen["uuids"] == {"0000:0f:00.0": "GPU-0"}
    assert seen["serials"] == {"0000:0f:00.0": "1650"}
    assert not {"uuid", "serial"} & seen["gpus"][0].keys()


def test_a_driver_that_does_not_answer_is_slow_and_says_what_helps(driver, nodes, monkeypatch):
    driver("sleep 9")
    monkeypatch.setattr(driver_reader, "LIMIT_S", 0.2)
    seen = driver_reader.read_gpus()
    assert seen["error"] == "no answer in 0.2 s"
    seen["took_s"] = 90.0
    (found,) = gpu_checks.findings(nodes[0], seen)
    assert (found.kind, found.proven) == ("gpu.unread", False)
    assert "nvidia-smi -pm 1" in found.remedy


def test_nodes_with_a_slow_driver_are_noted_once():
    known = {
        f"n{n}": {"gpus": {**gpus(8)["gpus"], "took_s": 31.0 if n > 2 else 0.2}} for n in (1, 2, 3)
    }
    (note,) = gpu_checks.slow_notes(known)
    assert note.startswith("nvidia-smi took up to 31 s on 1 node (n3)")
    assert "nvidia-smi -pm 1" in note
    assert gpu_checks.slow_notes({"n1": gpus(8)}) == []


def test_the_reader_looks_at_the_processes_again_at_the_end(here, driver):
    driver("exit 1")
    assert ask(here, "counters")["processes"] == ["417, python3"]


def test_an_answer_of_an_older_reader_has_a_known_shape():
    old = {"index": "0", "name": "H100", "total_mib": "80000", "free_mib": "79500"}
    assert shapes._GPUS({"gpus": [old], "processes": [], "error": ""}) is RIGHT
    assert jobs.default_sizes("nccl", 1 << 30)[-1] <= 1 << 30


ODD: tuple[object, ...] = (None, "\x1b[2J", -1, 1 << 70, float("nan"), [], {}, "\ud800", "x" * 5000)


def test_preflight_of_a_stranger_makes_its_node_unknown(here, tmp_path, driver):
    """Each value of a good answer in turn is what none may be, on the way that answers take."""
    rails = [{"netdev": "lo", "pci": ""}]
    driver("exit 9")
    (tmp_path / "lldpctl").write_text(f"#!/bin/sh\necho '{LLDP % ETH0}'\n")
    (tmp_path / "lldpctl").chmod(0o755)
    check = shapes.preflight(1)
    document = {"verb": "preflight", "python": sys.executable, "rails": rails}
    command = program_command("reader", document, 60)
    good = ask_nodes(here, {"n1": command}, lambda _: check)["n1"]
    assert isinstance(good, dict)
    assert good["lldp"] == LLDP % ""
    good["rails"][0]["counters"] = {"netdev.tx_bytes": 1}
    good["others"], good["addresses"] = {"eth0": 1}, {"lo": ["127.0.0.1"]}
    good["runs"] = ["rank 3 of a job"]
    assert check(good) is None
    places = list(leaves(good))
    assert len(places) >= 12
    for place in places:
        for odd in ODD:
            lied = json.loads(json.dumps(good))
            owner = lied
            for key in place[:-1]:
                owner = owner[key]
            owner[place[-1]] = odd
            if {"error", "runs"} & set(place) and odd == "\x1b[2J":
                continue  # what a program said is shown escaped
            (tmp_path / "lie").write_text(json.dumps(lied))
            command = Command(f"cat {tmp_path}/lie", 20)
            found = ask_nodes(here, {"n1": command}, lambda _: check)["n1"]
            assert isinstance(found, NodeError), (place, odd)
            assert str(found).isprintable()


def leaves(value, *place):
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in children:
        if isinstance(each, dict | list):
            yield from leaves(each, *place, key)
        else:
            yield (*place, key)
