"""Single paths between four real nodes over Soft-RoCE: each fault is named, and nothing is left.

With two nodes, no path tells which of its ends is at fault.
"""

import pytest
from tests.lab.fleet import FOUR, leftovers_of_accept

pytestmark = [pytest.mark.lab, pytest.mark.hours]

BAD, RAIL, NETDEV = "node3", 1, "ens2"
# A firewall that knows nothing of RoCE: ping and TCP work.
BLOCK = (
    f"tc qdisc add dev {NETDEV} clsact; tc filter add dev {NETDEV} ingress protocol ip flower "
    "ip_proto udp dst_port 4791 action drop"
)
OPEN = f"tc qdisc del dev {NETDEV} clsact"
# A healthy rail of emulated nodes carries some 8 Mbit/s; rail-slow of the catalogue leaves 5.
SLOW, FAST = (
    f"tc qdisc replace dev {NETDEV} root netem rate 1mbit",
    f"tc qdisc del dev {NETDEV} root",
)
# Of the wrong priority is what classifies packets: a path test, as NCCL, gives its own a DSCP, so
# that tos-lost, a fault of rdma_cm's, changes none of them.
FAULTS = ("rail-drops-packets", "mtu-wrong", "trust-pcp")
# Collectives of torch, which come after paths that are all good, take emulated nodes long.
PATHS_ALONE = ("--stages", "pairs", "--keep-going", "never")


@pytest.fixture
def fleet(fleet_of_four):
    return fleet_of_four


@pytest.fixture(autouse=True)
def _heal(fleet):
    yield
    fleet.lab.must("heal", BAD)
    fleet.lab.run(BAD, f"{OPEN} 2>/dev/null; {FAST} 2>/dev/null; true")


def measure(fleet, *words):
    code, said = fleet.run("accept", "--ignore-validate", *words, "--sizes", "16K:64K")
    results = fleet.results()
    assert leftovers_of_accept(fleet.lab, FOUR) == [""] * len(FOUR)
    return code, said, {stage["name"]: stage for stage in results["stages"]}, results


def named(results):
    return {(f["node"], f["rail"]) for f in results["findings"] if f["proven"]}


def test_healthy_nodes_pass(fleet):
    _, said, stages, results = measure(fleet, "--stages", "host,pairs")
    assert (stages["host"]["state"], stages["pairs"]["state"]) == ("passed", "passed"), said
    assert "3 rounds of paths on 2 rails: 24 paths, 24 good, 0 bad" in stages["pairs"]["said"]
    assert len(results["paths"]["rows"]) == 24
    assert results["findings"] == []


@pytest.mark.parametrize(
    ("words", "rails"),
    [
        *((("fault", BAD, name, "--rail", str(RAIL)), {RAIL}) for name in FAULTS),
        *((("ssh", BAD, "--", command), {RAIL}) for command in (SLOW, BLOCK)),
        (("fault", BAD, "rail-addresses-swapped"), {0, 1}),
    ],
    ids=[*FAULTS, "slow", "firewall", "swapped"],
)
def test_a_bad_rail_is_named(fleet, words, rails):
    fleet.lab.must(*words)
    code, said, _, results = measure(fleet, *PATHS_ALONE)
    assert code == 1, said
    assert named(results) == {(BAD, rail) for rail in rails}, said
