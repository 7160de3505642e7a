"""What the role says of slurm.conf, where slurmd is installed; it never changes it."""

from __future__ import annotations

import pytest
from plugins.module_utils.roles import limits
from tests.roles.fake import FakeMachine

CONF, CACHE = "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"
SAID = "jobs get the memlock limit of the shell that submits them"


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("", True),
        ("PropagateResourceLimits=ALL\n", True),
        ("PropagateResourceLimits=NONE\n", False),
        ("PropagateResourceLimits=STACK,NOFILE\n", False),
        ("PropagateResourceLimits=RLIMIT_MEMLOCK\n", True),
        ("PropagateResourceLimitsExcept=MEMLOCK\n", False),
        ('PropagateResourceLimitsExcept="CORE, MEMLOCK"\n', False),
        ('PropagateResourceLimits = "STACK MEMLOCK"\n', True),
        ("propagateresourcelimitsexcept=ALL\n", False),
        ("PropagateResourceLimitsExcept=NONE\n", True),
        ("PropagateResourceLimitsExcept=STACK,MEMLOCK # jobs\n", False),
        ("#PropagateResourceLimitsExcept=MEMLOCK\n", True),
        ("PropagateResourceLimitsExcept=NOFILE\nPropagateResourceLimits=NONE\n", True),
        ("PropagateResourceLimitsExcept=\\\nMEMLOCK\n", False),
    ],
)
def test_settings(machine: FakeMachine, text, warns):
    machine.put(CONF, text)
    assert [SAID in each for each in limits.warnings(machine)] == [True] * warns


def test_included_file_counts(machine: FakeMachine):
    machine.put(CONF, "Include limits.conf\n")
    assert limits.warnings(machine)
    machine.put("/etc/slurm/limits.conf", "PropagateResourceLimitsExcept=MEMLOCK\n")
    assert limits.warnings(machine) == []


def test_file_that_includes_itself_ends(machine: FakeMachine):
    machine.put(CONF, "Include slurm.conf\n")
    assert len(limits.warnings(machine)) == 1


def test_fetched_configuration_counts_before_the_file(machine: FakeMachine):
    machine.put(CONF, "PropagateResourceLimitsExcept=MEMLOCK\n")
    machine.put(CACHE, "ClusterName=a\n")
    assert [each.partition(":")[0] for each in limits.warnings(machine)] == [CACHE]


def test_node_without_slurm_conf_has_no_warning(machine: FakeMachine):
    assert limits.warnings(machine) == []
