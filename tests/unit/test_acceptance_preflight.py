"""What is missing on nodes is named before anything runs on them."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.sites import GOOD, write

from rdmaprov.acceptance import counters, link_errors, preflight, reach, shapes
from rdmaprov.acceptance.nodes import ask_nodes, program_command
from rdmaprov.inventory import load_site
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target

ASKED = (1000.0, 1001.0)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    files = dict(GOOD)
    files["hosts.yml"] = "---\nnodes:\n  hosts:\n" + "".join(
        f"    n{n}: {{unit: {n}}}\n" for n in (1, 2, 3, 4)
    )
    return load_site(write(tmp_path_factory.mktemp("site"), files)).nodes


def facts(number):
    return {
        "time": 1000.5,
        "port": 40000 + number,
        "hostname": f"n{number}.example",
        "torch": {"python": "3.11.2", "torch": "2.13.0", "nccl": "2.30.7"},
        "gpus": {
            "gpus": [{"index": "0", "name": "H100", "total_mib": "80000", "free_mib": "79500"}],
            "processes": [],
            "error": "",
        },
        "addresses": {
            "eth0": [f"192.0.2.{number}"],
            "ens1": [f"198.18.0.{number}"],
            "ens2": [f"198.18.1.{number}"],
        },
        "rails": [
            {
                "netdev": f"ens{rail + 1}",
                "there": True,
                "carrier": True,
                "addresses": [f"198.18.{rail}.{number}"],
                "rdma": f"mlx5_{rail}",
                "state": "ACTIVE",
                "counters": {"port.port_xmit_data": 0, "hw.out_of_sequence": 7},
            }
            for rail in range(2)
        ],
        "others": {"eth0": 1000},
    }


@pytest.fixture
def known(nodes):
    return {node.name: facts(int(node.name[1:])) for node in nodes}


def found(nodes, known, backend="nccl"):
    return preflight.findings(nodes, known, backend, ASKED)


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_nodes_in_order_have_no_findings(nodes, known, backend):
    assert found(nodes, known, backend) == []


WRONG = [
    (("torch",), {"error": "No such file or directory"}, "no torch in", None),
    (("torch",), {"error": ""}, "no torch in", None),
    (("torch",), {"error": "\n"}, "no torch in", None),
    (("torch", "torch"), "2.12.0", "torch 2.12.0, expected 2.13.0 as on 3 of 4 nodes", None),
    (("torch", "nccl"), "2.29.1", "nccl 2.29.1, expected 2.30.7 as on 3 of 4 nodes", None),
    (("time",), 1004.5, "its clock is 3.5 s off", None),
    (("rails", 1, "there"), False, "ens2 does not exist", 1),
    (("rails", 1, "carrier"), False, "ens2 is down", 1),
    (("rails", 0, "state"), "DOWN", "mlx5_0 is DOWN, expected ACTIVE", 0),
    (("rails", 0, "rdma"), "", "ens1 has no RDMA device", 0),
    (("rails", 0, "addresses"), ["198.18.1.9"], "has the address 198.18.1.9, expected", 0),
    (("gpus", "gpus"), [], "0 GPUs, expected at least 1", None),
    (("gpus", "processes"), ["417, python3"], "in use by process 417, python3", None),
    (("gpus", "gpus", 0, "free_mib"), "40000", "40000 of 80000 MiB are free", None),
    (("gpus", "gpus", 0, "mig"), True, "GPU 0 is split", None),
    (("gpus", "lost"), ["GPU0000:08:00.0: Unknown Error"], "a GPU is lost (nvidia-smi: GPU", None),
]


@pytest.mark.parametrize(("path", "value", "says", "rail"), WRONG, ids=[w[2] for w in WRONG])
def test_what_is_wrong_is_named(nodes, known, path, value, says, rail):
    at = known["n3"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    (finding,) = found(nodes, known)
    assert says in finding.what
    assert (finding.node, finding.rail, finding.proven) == ("n3", rail, True)


def test_a_node_that_does_not_answer_is_not_known(nodes, known):
    known["n2"] = NodeUnreachable("n2: ssh: connection refused", "Is sshd running there?")
    (finding,) = found(nodes, known)
    assert finding.text == "n2: unreachable: ssh: connection refused. Is sshd running there?"


def test_gloo_needs_no_gpu_and_no_rdma(nodes, known):
    for each in known.values():
        each["gpus"] = {"gpus": [], "processes": [], "error": "no nvidia-smi"}
        each["rails"][0]["rdma"] = ""
    assert found(nodes, known, "gloo") == []


def tries(nodes, known):
    own: dict[str, list[reach.ReachTest]] = {node.name: [] for node in nodes}
    for probe in reach.reach_tests(nodes, known):
        own[probe.source].append(probe)
    return own


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


def test_no_place_to_meet(nodes, known):
    own = tries(nodes, known)
    assert (
        reach.find_rendezvous(nodes, known, own, answers(own, lambda p: p.source == "n4")) is None
    )


def test_a_node_where_another_acceptance_runs_is_neither_good_nor_bad(nodes, known):
    known["n3"]["runs"] = ["process 4711"]
    (finding,) = found(nodes, known)
    assert (finding.node, finding.proven) == ("n3", False)
    assert "another acceptance runs on it (process 4711)" in finding.what


@pytest.fixture
def here():
    probe = Probe({"n1": Target("n1", "", ("/bin/sh", "-c"), sys.executable, 60)})
    yield probe
    probe.close()


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


def test_a_refused_connection_is_an_answer(here):
    with socket.create_server(("127.0.0.1", 0)):
        targets = [{"address": "127.0.0.1", "device": "lo"}, {"address": "127.0.0.1", "device": ""}]
        assert read(here, verb="reach", targets=targets, limit_s=5)["reach"] == ["", ""]


def test_a_device_that_is_not_there_reaches_nothing(here):
    targets = [{"address": "127.0.0.1", "device": "none0"}]
    (why,) = read(here, verb="reach", targets=targets, limit_s=5)["reach"]
    assert why == "No such device"


RUN_S = 600.0


def counted(node, **changes):
    """Return what two rails counted, whose counters grew by so much on the second."""
    old, new = facts(1), copy.deepcopy(facts(1))
    for number, each in enumerate(new["rails"]):
        each["counters"].update({"port.port_xmit_data": 25_000_000 if number == 0 else 24_000_000})
    for name, value in changes.items():
        kind, _, counter = name.partition("__")
        old["rails"][1]["counters"].setdefault(f"{kind}.{counter}", 0)
        new["rails"][1]["counters"][f"{kind}.{counter}"] = value
    new["time"] += RUN_S
    return counters.rail_traffic(node, old, new)


def test_bytes_are_words_of_four(nodes):
    assert [each.sent_bytes for each in counted(nodes[0])] == [100_000_000, 96_000_000]


def test_errors_that_were_there_before_are_no_findings(nodes):
    rails = counted(nodes[0])
    assert list(link_errors.findings(rails)) == []
    assert list(counters.balance(rails)) == []
    assert list(counters.volume(rails, 180_000_000)) == []


NEVER = ["port__link_downed", "ethtool__link_down_events_phy", "hw__retry_exceeded_err"]


@pytest.mark.parametrize("name", NEVER)
def test_what_breaks_connections_is_named_at_the_first_event(nodes, name):
    (finding,) = link_errors.findings(counted(nodes[0], **{name: 1}))
    assert (finding.node, finding.rail) == ("n1", 1)
    assert name.replace("__", ".") in finding.what
    assert finding.what.endswith("expected 0")


RARE = ["port__symbol_error", "ethtool__rx_discards_phy", "hw__rx_icrc_encapsulated"]


@pytest.mark.parametrize("name", RARE)
def test_errors_are_judged_by_the_bits_that_the_line_carried(nodes, name):
    # 400 Gb/s for 600 s at 1e-12: 240 on average; by Poisson, more than 339 are one in a billion.
    assert list(link_errors.findings(counted(nodes[0], **{name: 339}))) == []
    (finding,) = link_errors.findings(counted(nodes[0], **{name: 340}))
    assert (finding.node, finding.rail) == ("n1", 1)
    assert "expected at most 339, a rate of 1.4e-12 per bit" in finding.what


def test_a_fleet_at_a_healthy_error_rate_has_no_findings(nodes):
    # 4,096 ports at 1e-15 have about 1,000 errors in these 600 s, and some have three or four.
    for count in range(5):
        assert list(link_errors.findings(counted(nodes[0], port__symbol_error=count))) == []


@pytest.mark.parametrize("mean", [1e-6, 0.005, 0.05, 1, 24, 240, 499])
def test_chance_alone_accuses_one_link_of_a_billion(mean):
    most = link_errors.most_errors(mean / link_errors.MAX_BER)

    def more_than(count):
        first = math.exp((count + 1) * math.log(mean) - mean - math.lgamma(count + 2))
        terms = itertools.accumulate(
            range(count + 2, count + 2000), lambda term, n: term * mean / n, initial=first
        )
        return math.fsum(terms)

    assert more_than(most) < 1e-9 <= more_than(most - 1) * 1.001


def test_errors_of_a_line_whose_time_is_not_known_are_named(nodes):
    rails = [
        dataclasses.replace(each, bits=0.0) for each in counted(nodes[0], port__symbol_error=1)
    ]
    (finding,) = link_errors.findings(rails)
    assert finding.what.endswith("expected 0")


def test_a_link_may_recover_once(nodes):
    assert list(link_errors.findings(counted(nodes[0], port__link_error_recovery=1))) == []
    (finding,) = link_errors.findings(counted(nodes[0], port__link_error_recovery=2))
    assert "2 link recoveries" in finding.what


def test_packets_out_of_order_are_reported_and_no_fault(nodes):
    rails = counted(nodes[0], hw__out_of_sequence=10**6)
    assert list(link_errors.findings(rails)) == []
    assert counters.congestion(rails)["n1 rail 1"]["hw.out_of_sequence"] == 10**6 - 7


def test_the_lossless_priority_discards_nothing(nodes):
    rails = counted(nodes[0], ethtool__rx_prio3_discards=1, ethtool__rx_prio0_discards=300)
    (finding,) = link_errors.findings(rails, 3)
    assert "ethtool.rx_prio3_discards" in finding.what
    assert "--roles roce_qos" in finding.remedy


def test_a_counter_that_fell_says_nothing(nodes):
    rails = counted(nodes[0], hw__out_of_sequence=3)
    assert "hw.out_of_sequence" not in rails[1].delta
    assert list(link_errors.findings(rails)) == []


def test_a_rail_that_sends_little_is_named(nodes):
    (finding,) = counters.balance(counted(nodes[0], port__port_xmit_data=2_000_000))
    assert (finding.node, finding.rail) == ("n1", 1)


def test_data_that_did_not_take_the_rails_is_named(nodes):
    (finding,) = counters.volume(counted(nodes[0]), 900_000_000)
    assert "its rails sent 0.2 GB, a ring sends 0.9 GB" in finding.what


def test_data_of_the_wrong_priority_is_named(nodes):
    right = counted(nodes[0], ethtool__tx_prio3_bytes=99, ethtool__tx_prio0_bytes=1)
    assert [f for f in counters.priorities(nodes[0], right) if f.rail == 1] == []
    wrong = counted(nodes[0], ethtool__tx_prio3_bytes=1, ethtool__tx_prio0_bytes=99)
    (finding,) = [f for f in counters.priorities(nodes[0], wrong) if f.rail == 1]
    assert "1 % of the bytes had priority 3" in finding.what
    assert "most had 0" in finding.what


def test_priorities_that_nothing_counts_are_not_known(nodes):
    assert {f.proven for f in counters.priorities(nodes[0], counted(nodes[0]))} == {False}


def test_management_that_carries_data_is_named(nodes):
    old, new = facts(1), facts(1)
    new["others"] = {"eth0": 10**9}
    (finding,) = counters.management(nodes[0], old, new, 10**9)
    assert "eth0, which is not a rail, sent 1.0 GB" in finding.what
    new["others"] = {"eth0": 20_000_000}
    assert list(counters.management(nodes[0], old, new, 10**9)) == []


def test_facts_are_json(nodes):
    assert json.loads(json.dumps(preflight.reader_request(nodes[0])))["rails"] == [
        {"netdev": "ens1", "pci": ""},
        {"netdev": "ens2", "pci": ""},
    ]
