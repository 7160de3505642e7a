"""What is missing on nodes is named before anything runs on them."""

import json
import socket
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.roles.torch_wheels import wheel
from tests.tables import cases
from tests.unit.helpers.preflight_facts import facts, tries

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight import reach
from rdmaprov.probe.errors import NodeUnreachable

ASKED = (1000.0, 1001.0)


@pytest.fixture
def known(nodes):
    return {node.name: facts(int(node.name[1:])) for node in nodes}


def found(nodes, known, backend="nccl"):
    return preflight.findings(nodes, known, backend, ASKED)


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_nodes_in_order_have_no_findings(nodes, known, backend):
    assert found(nodes, known, backend) == []


@pytest.mark.parametrize("seen", [{"carrier": False}, {"there": False, "netdev": ""}])
def test_ipoib_that_is_not_used_may_be_down_or_absent(nodes, known, seen):
    """Its port is active, and nobody brought its network device up."""
    for document in known.values():
        for rail in document["rails"]:
            rail.update(seen)
    infiniband = {"fabric_kind": "infiniband", "fabric_ipoib": False}
    without = [replace(node, values={**node.values, **infiniband}) for node in nodes]
    assert found(without, known, "nccl") == []
    assert len(found(nodes, known, "nccl")) == sum(len(node.rails) for node in nodes)


WRONG = cases(__file__, "wrong")


@pytest.mark.parametrize(("path", "value", "says", "rail"), WRONG, ids=[w[2] for w in WRONG])
def test_what_is_wrong_is_named(nodes, known, path, value, says, rail):
    at = known["n3"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    (finding,) = found(nodes, known)
    assert says in finding.what
    assert (finding.node, finding.rail, finding.proven) == ("n3", rail, True)


def with_cuda(known, names, **said):
    for name in names:
        known[name]["torch"] |= {"cuda": "13.0", **said.get("torch", {})}
        known[name]["identity"] = {"versions": {"nvidia": said.get("nvidia", "")}}
    return known


@pytest.mark.parametrize(
    "said",
    cases(__file__, "driver_that_is_older_than_torch_s_cuda_is_named"),
    ids=["both", "driver", "libcuda"],
)
def test_driver_that_is_older_than_torch_s_cuda_is_named(nodes, known, said):
    (finding,) = found(nodes, with_cuda(known, ["n3"], **said))
    assert (finding.kind, finding.node, finding.proven) == ("torch.driver", "n3", True)
    assert "expected CUDA 13 for torch 2.13.0" in finding.what
    assert "driver 580" in finding.remedy


def test_drivers_that_are_all_too_old_are_one_finding(nodes, known):
    (finding,) = found(nodes, with_cuda(known, known, nvidia="570.124.06"))
    assert (finding.level, finding.nodes) == ("fleet", ("n1", "n2", "n3", "n4"))


@pytest.mark.parametrize("stated", ["2.29", "2.3", "2.30.70"])
def test_nccl_that_the_site_does_not_state_is_one_finding(nodes, known, stated):
    def stating(some, text):
        values = {"nccl_version": text}
        return [
            replace(each, values={**each.values, **values}, written=each.written | {*values})
            if each in some
            else each
            for each in nodes
        ]

    (finding,) = found(stating(nodes, stated), known)
    assert (finding.kind, finding.level, finding.proven) == ("nccl.version", "fleet", True)
    assert "NCCL 2.30.7 in " in finding.what
    assert f"expected {stated} (nccl_version)" in finding.what
    (finding,) = found(stating(nodes[2:3], stated), known)
    assert (finding.kind, finding.node) == ("nccl.version", "n3")
    assert found(stating(nodes, "2.30"), known) == found(stating(nodes, stated), known, "gloo")
    del known["n3"]["torch"]["nccl"]
    assert not any(each.kind == "nccl.version" for each in found(stating(nodes[2:3], "2"), known))


@pytest.mark.parametrize("said", cases(__file__, "driver_that_runs_torch_is_no_finding"))
def test_driver_that_runs_torch_is_no_finding(nodes, known, said):
    assert found(nodes, with_cuda(known, known, **said)) == []


def test_device_that_is_not_supported_is_unknown_and_not_down(nodes, known):
    known["n3"]["rails"][0] |= {"unfit": "mlx5_0 has 12 ports", "state": "DOWN"}
    (finding,) = found(nodes, known)
    assert (finding.kind, finding.rail, finding.proven) == ("rail.unsupported", 0, False)


def test_a_node_that_does_not_answer_is_not_known(nodes, known):
    known["n2"] = NodeUnreachable("n2: ssh: connection refused", "Is sshd running there?")
    (finding,) = found(nodes, known)
    assert finding.text == "n2: unreachable: ssh: connection refused. Is sshd running there?"


def test_gloo_needs_no_gpu_and_no_rdma(nodes, known):
    for each in known.values():
        each["gpus"] = {"gpus": [], "processes": [], "error": "no nvidia-smi"}
        each["rails"][0]["rdma"] = ""
    assert found(nodes, known, "gloo") == []


def answers(own, bad=lambda _probe: False):
    return {
        name: {
            "reach": ["no answer in 5 s" if bad(probe) else "" for probe in probes],
            "own": [f"192.0.2.{name[1:]}" if not probe.device else "" for probe in probes],
        }
        for name, probes in own.items()
    }


def unreached(nodes, known, bad):
    own = tries(nodes, known)
    failed = reach.failures(own, answers(own, bad))
    return reach.findings([probe for probes in own.values() for probe in probes], failed)


def test_each_rail_of_each_node_is_tried(nodes, known):
    probes = [probe for probes in tries(nodes, known).values() for probe in probes]
    for rail in (0, 1):
        ends = {(p.source, p.target) for p in probes if p.rail == rail}
        ring = {("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1")}
        assert ends >= ring | {("n2", "n1"), ("n3", "n1")}
    assert len(probes) < 10 * len(nodes)


def test_a_node_that_reaches_nobody_is_named_alone(nodes, known):
    found = unreached(nodes, known, lambda p: p.rail == 1 and "n3" in (p.source, p.target))
    assert [(finding.node, finding.rail) for finding in found] == [("n3", 1)]


def test_two_nodes_that_do_not_reach_each_other_are_both_named(nodes, known):
    found = unreached(nodes, known, lambda p: p.rail == 0 and (p.source, p.target) == ("n2", "n3"))
    (finding,) = found
    assert (finding.node, finding.rail) == ("n2", 0)
    assert "ens1 does not reach 198.18.0.3 of n3: no answer in 5 s" in finding.what


def test_of_two_nodes_none_is_accused_alone(nodes, known):
    pair = nodes[:2]
    found = unreached(pair, {n.name: known[n.name] for n in pair}, lambda p: p.rail == 1)
    assert {finding.node for finding in found} == {"n1", "n2"}
    assert all("does not reach" in finding.what for finding in found)


def test_ranks_meet_by_the_management_network_if_all_reach_it(nodes, known):
    own = tries(nodes, known)
    met = reach.find_rendezvous(nodes, known, own, answers(own))
    assert met == reach.Rendezvous("192.0.2.1", dict.fromkeys(known, "eth0"))


def test_an_address_that_each_node_has_is_no_place_to_meet(nodes, known):
    for name in known:
        known[name]["addresses"]["eth0"] = ["10.0.2.15"]
    own = tries(nodes, known)
    said = answers(own)
    for name, probes in own.items():
        said[name]["own"] = [f"198.18.{probe.rail}.{name[1:]}" for probe in probes]
    met = reach.find_rendezvous(nodes, known, own, said)
    assert met == reach.Rendezvous("198.18.0.1", dict.fromkeys(known, "ens1"))


def control(nodes, known, bad):
    own = tries(nodes, known)
    said = answers(own, bad)
    met = reach.find_rendezvous(nodes, known, own, said)
    assert met is not None
    return reach.control_findings(met, own, said)


def test_a_port_that_a_firewall_filters_is_named_with_both_ends(nodes, known):
    """The first node is reached by all, and NCCL's ring from n2 to n3 is not."""
    (found,) = control(nodes, known, lambda p: p.rail is None and p.target == "n3")
    assert (found.kind, found.nodes, found.level) == ("control.filtered", ("n2", "n3"), "pair")
    assert "n2 does not reach port 40003 of n3 (192.0.2.3 on eth0): no answer in 5 s" in found.what
    assert found.proven


def test_a_firewall_on_all_nodes_is_one_finding(nodes, known):
    (found,) = control(nodes, known, lambda p: p.rail is None and p.target != "n1")
    assert (found.level, found.node) == ("fleet", "")
    assert "3 of 3 nodes are not let through to the next one" in found.what


def test_no_firewall_and_one_on_another_network_are_no_finding(nodes, known):
    assert control(nodes, known, lambda _: False) == []
    for name in known:
        known[name]["addresses"]["docker0"] = [f"192.0.2.10{name[1:]}"]
    assert control(nodes, known, lambda p: p.address.startswith("192.0.2.10")) == []


def test_the_port_of_the_site_is_the_one_that_is_tried(nodes, known):
    sites = [replace(n, values={**n.values, "torch_runtime_acceptance_port": 555}) for n in nodes]
    ports = {(p.target, p.port) for own in tries(sites, known).values() for p in own}
    assert {port for target, port in ports if target == "n1"} == {0, 555}


def test_no_place_to_meet(nodes, known):
    own = tries(nodes, known)
    assert (
        reach.find_rendezvous(nodes, known, own, answers(own, lambda p: p.source == "n4")) is None
    )


def test_a_node_where_another_acceptance_runs_is_neither_good_nor_bad(nodes, known):
    known["n3"]["runs"] = ["process 4711"]
    known["n3"]["gpus"]["processes"] = ["4712, python3"]  # its rank: nothing else to drain
    (finding,) = found(nodes, known)
    assert (finding.node, finding.proven) == ("n3", False)
    assert "another acceptance runs on it (process 4711)" in finding.what


def read(here, **document):
    command = program_command("reader", document, 60)
    check = (
        shapes.reach(len(document["targets"]))
        if document["verb"] == "reach"
        else shapes.preflight(len(document["rails"]))
    )
    return ask_nodes(here, {"n1": command}, lambda _: check)["n1"]


def test_the_reader_reads_this_machine(here):
    rails = [{"netdev": "lo", "pci": ""}, {"netdev": "none0", "pci": ""}]
    seen = read(here, verb="preflight", python=sys.executable, rails=rails)
    lo, none = seen["rails"]
    counted = int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())
    assert lo["there"]
    assert 0 <= lo["counters"]["netdev.tx_bytes"] <= counted
    assert (none["there"], none["carrier"], none["counters"]) == (False, False, {})
    assert "lo" not in seen["others"]
    assert seen["hostname"] == socket.gethostname()


def test_the_reader_finds_another_acceptance(here):
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()", "rdmaprov-accept-0123456789ab-7"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE) as other:
        seen = read(here, verb="preflight", python=sys.executable, rails=[])
        assert other.stdin is not None
        other.stdin.close()
    assert f"process {other.pid}" in seen["runs"]


def test_the_reader_says_why_there_is_no_torch(here, tmp_path):
    python = tmp_path / "python"
    seen = read(here, verb="preflight", python=str(python), rails=[])
    assert str(python) in seen["torch"]["error"]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    seen = read(here, verb="preflight", python=str(tmp_path / "v/bin/python"), rails=[])
    assert set(seen["torch"]) == {"python"}


VERSION_PY = cases(__file__, "version_py")


@pytest.mark.parametrize(("cuda", "wanted"), [("'13.0'", "13.0"), ("None", None), ("'x'", None)])
def test_the_reader_says_the_cuda_of_torch_without_importing_it(here, tmp_path, cuda, wanted):
    site = tmp_path / "site"
    wheel(tmp_path / "w", "2.13.0", **{"torch/version.py": VERSION_PY.format(cuda=cuda)})
    with zipfile.ZipFile(next((tmp_path / "w").iterdir())) as archive:
        archive.extractall(site)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    seen = read(here, verb="preflight", python=str(python), rails=[])["torch"]
    assert (seen["torch"], seen.get("cuda")) == ("2.13.0", wanted)


def test_a_refused_connection_is_an_answer(here):
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = {"address": "127.0.0.1", "device": ""}
        targets = [{**own, "device": "lo"}, own, {**own, "port": server.getsockname()[1]}]
        assert read(here, verb="reach", targets=targets, limit_s=5)["reach"] == ["", "", ""]


def test_a_device_that_is_not_there_reaches_nothing(here):
    targets = [{"address": "127.0.0.1", "device": "none0"}]
    (why,) = read(here, verb="reach", targets=targets, limit_s=5)["reach"]
    assert why == "No such device"


def test_facts_are_json(nodes):
    assert json.loads(json.dumps(preflight.reader_request(nodes[0])))["rails"] == [
        {"netdev": "ens1", "pci": ""},
        {"netdev": "ens2", "pci": ""},
    ]
