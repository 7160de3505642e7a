"""What an answer, or none, proves of a rail: TCP alone says little of RDMA."""

from __future__ import annotations

import sys

import pytest
from tests.unit.helpers.preflight_facts import facts, tries
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import ask_nodes, program_command
from rdmaprov.acceptance.preflight import readings
from rdmaprov.inventory import load_site
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target

DROPPED = "no answer in 5 s"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    files = dict(GOOD)
    files["hosts.yml"] = "---\nnodes:\n  hosts:\n" + "".join(
        f"    n{n}: {{unit: {n}}}\n" for n in (1, 2, 3, 4)
    )
    return load_site(write(tmp_path_factory.mktemp("site"), files)).nodes


@pytest.fixture
def known(nodes):
    found = {}
    for node in nodes:
        found[node.name] = facts(int(node.name[1:]))
        for number, rail in enumerate(found[node.name]["rails"]):
            rail["mac"] = mac(node.name, number)
    return found


def mac(name, rail):
    return f"02:00:00:00:{rail:02x}:{int(name[1:]):02x}"


def say(own, why, *, ping=False, state="REACHABLE", answered_by=None):
    """Return the answers where rail 1 gets none by TCP for this reason."""
    said = {}
    for name, tests in own.items():
        bad = [test.rail == 1 for test in tests]
        said[name] = {
            "reach": [why if each else "" for each in bad],
            "own": ["" for _ in tests],
            "pings": [each and ping for each in bad],
            "neighbors": [
                {
                    "state": state if each else "REACHABLE",
                    "mac": mac(answered_by or test.target, test.rail or 0),
                }
                for test, each in zip(tests, bad, strict=True)
            ],
        }
    return said


def judge(nodes, known, said, backend="nccl", kind="roce"):
    return readings.judge(tries(nodes, known), said, known, backend, kind)


def test_a_firewall_that_drops_tcp_on_rails_stops_no_run_over_rdma(nodes, known):
    found, (note,) = judge(nodes, known, say(tries(nodes, known), DROPPED))
    assert found == []
    assert note.startswith("rail 1: ")
    assert "A firewall may drop TCP" in note


def test_a_firewall_that_refuses_for_another_host_proves_nothing(nodes, known):
    # firewalld's REJECT is icmp-host-prohibited, which arrives as "No route to host".
    assert judge(nodes, known, say(tries(nodes, known), "No route to host"))[0] == []


def test_a_ping_that_is_answered_shows_that_the_rail_works(nodes, known):
    assert judge(nodes, known, say(tries(nodes, known), DROPPED, ping=True)) == ([], [])


@pytest.mark.parametrize("state", ["FAILED", "INCOMPLETE"])
def test_arp_without_an_answer_proves_that_the_rail_does_not_work(nodes, known, state):
    found, notes = judge(nodes, known, say(tries(nodes, known), "No route to host", state=state))
    assert {finding.rail for finding in found} == {1}
    assert all(f.proven and f"ip neigh: {state}" in f.what for f in found)
    assert notes == []


@pytest.mark.parametrize("why", ["Network is unreachable", "No such device"])
def test_a_node_that_cannot_send_is_proven(nodes, known, why):
    found, _ = judge(nodes, known, say(tries(nodes, known), why, state=""))
    assert found
    assert all(finding.proven for finding in found)


def test_infiniband_needs_no_addresses(nodes, known):
    said = say(tries(nodes, known), "Network is unreachable", state="FAILED")
    found, notes = judge(nodes, known, said, kind="infiniband")
    assert (found, len(notes)) == ([], 1)


def test_gloo_needs_tcp(nodes, known):
    found, _ = judge(nodes, known, say(tries(nodes, known), DROPPED, ping=True), "gloo")
    assert {finding.rail for finding in found} == {1}


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_an_address_that_another_node_answers_for_is_named_with_both(nodes, known, backend):
    own = tries(nodes, known)
    said = say(own, "")
    number = next(n for n, t in enumerate(own["n2"]) if (t.target, t.rail) == ("n3", 0))
    said["n2"]["neighbors"][number]["mac"] = mac("n4", 0)
    (found,), _ = judge(nodes, known, said, backend)
    assert (found.level, found.nodes, found.rail) == ("pair", ("n3", "n4"), 0)
    assert "198.18.0.3 of n3 is answered by n4 rail 0" in found.what


def test_a_switch_that_answers_arp_for_nodes_is_no_stranger(nodes, known):
    said = say(tries(nodes, known), "")
    for answer in said.values():
        for neighbor in answer["neighbors"]:
            neighbor["mac"] = "02:00:5e:00:01:01"
    assert judge(nodes, known, said) == ([], [])


def test_an_answer_without_neighbors_proves_nothing_of_rdma(nodes, known):
    own = tries(nodes, known)
    said = {
        name: {"reach": [DROPPED] * len(tests), "own": [""] * len(tests)}
        for name, tests in own.items()
    }
    assert judge(nodes, known, said)[0] == []


def test_the_reader_tells_of_ways_beside_tcp():
    probe = Probe({"n1": Target("n1", "", ("/bin/sh", "-c"), sys.executable, 60)})
    targets = [{"address": "127.0.0.1", "device": "lo"}, {"address": "127.0.0.1", "device": "no0"}]
    command = program_command("reader", {"verb": "reach", "targets": targets, "limit_s": 2}, 60)
    try:
        seen = ask_nodes(probe, {"n1": command}, lambda _: shapes.reach(2))["n1"]
    finally:
        probe.close()
    assert isinstance(seen, dict)
    assert seen["reach"] == ["", "No such device"]
    assert seen["pings"] == [False, False]
    assert [each["state"] for each in seen["neighbors"]] == ["", ""]


def test_targets_of_the_rendezvous_are_on_no_rail(nodes, known):
    said = say(tries(nodes, known), "")
    for name, tests in tries(nodes, known).items():
        said[name]["reach"] = ["" if test.rail is not None else DROPPED for test in tests]
    assert judge(nodes, known, said) == ([], [])
    assert any(test.rail is None for tests in tries(nodes, known).values() for test in tests)
