"""A fleet that is changed batch by batch through its scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.helpers.sites import GOOD, write
from tests.unit.scheduler.test_scheduler_service import IDLE, Time

from rdmaprov.cli.apply_run import PROOFS, roll
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import load_site
from rdmaprov.replace.journal import Journal
from rdmaprov.replace.steps import Replacement, Step
from rdmaprov.scheduler.batches import batches
from rdmaprov.scheduler.service import StepOutcome

NAMES = ("n1", "n2", "n3", "n4")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    hosts = "".join(f"    n{i}: {{unit: {i}}}\n" for i in range(1, 13))
    files = {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"}
    return load_site(write(tmp_path_factory.mktemp("fleet") / "site", files)).nodes


def placed(nodes, leaves, racks):
    where = zip(nodes, leaves, racks, strict=False)
    return [
        replace(node, values={**node.values, "fabric_leaf": leaf, "fabric_rack": rack})
        for node, leaf, rack in where
    ]


DOMAINS = st.lists(st.sampled_from(("", "a", "b", "c")), min_size=12, max_size=12)


@given(leaves=DOMAINS, racks=DOMAINS, size=st.integers(1, 12))
def test_batches_have_each_node_once_and_no_two_of_one_domain(nodes, leaves, racks, size):
    fleet = placed(nodes, leaves, racks)
    found = list(batches(fleet, size))
    assert sorted(name for batch in found for name in batch) == sorted(n.name for n in fleet)
    assert len(found[0]) == 1
    by_name = {node.name: node for node in fleet}
    for batch in found:
        assert 1 <= len(batch) <= size
        for domain in ("fabric_leaf", "fabric_rack"):
            named = [value for name in batch if (value := by_name[name].get(domain))]
            assert len(named) == len(set(named))


def test_batches_of_no_nodes_are_none():
    assert list(batches([], 3)) == []


class Cluster:
    """Nodes of a scheduler; those in `broken` fail to validate."""

    def __init__(self, directory):
        self.now = {name: replace(IDLE, node=name) for name in NAMES}
        self.broken: set[str] = set()
        self.applied: list[str] = []
        self.journal = Journal(directory, PROOFS)

    def status(self, names):
        return {name: self.now[name] for name in names}

    def drain(self, node, reason):
        self.now[node] = replace(self.now[node], drains=True, idle=False, reason=reason)

    def resume(self, node):
        self.now[node] = replace(IDLE, node=node)

    def hold(self, nodes, label, seconds):
        raise AssertionError(nodes, label, seconds)

    def release(self, nodes, label):
        raise AssertionError(nodes, label)

    def resume_command(self, node):
        return f"resume {node}"

    def apply(self, names):
        assert all(self.now[name].drains for name in names)
        self.applied += names
        return StepOutcome()

    def validate(self, names):
        if wrong := self.broken.intersection(names):
            return StepOutcome(ExitCode.FAILED, f"{sorted(wrong)} failed")
        return StepOutcome()

    def batch(self, names):
        return Replacement(
            tuple(names),
            (),
            (Step("apply", self.apply), Step("validate", self.validate)),
            self,
            self.journal,
            5,
            clock=Time().clock,
            verb="apply",
        ).run()


def test_fault_on_the_third_of_four_nodes_leaves_the_rest_in_service(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.broken = {"n3"}
    found = roll([[name] for name in NAMES], cluster.batch)
    assert (found.end.code, found.end.step) == (ExitCode.FAILED, "validate")
    assert (found.stopped, found.left) == (["n3"], ["n4"])
    assert cluster.applied == ["n1", "n2", "n3"]
    assert [cluster.now[name].idle for name in NAMES] == [True, True, False, True]
    assert cluster.now["n3"].reason == "rdmaprov: apply stopped at validate: failed"
    cluster.broken = set()
    found = roll([["n3"], ["n4"]], cluster.batch)
    assert found.end.code is ExitCode.OK
    assert cluster.applied == ["n1", "n2", "n3", "n4"]
    assert all(cluster.now[name].idle for name in NAMES)
