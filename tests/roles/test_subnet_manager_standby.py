"""A stranger's subnet manager that answers and says that it stands by: named as no master."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import subnet_manager
from tests.roles.opensm_node import OTHER, arguments, made


def test_manager_that_stands_by_is_named_as_no_master(tmp_path: Path):
    node = made(tmp_path / "node")
    node.programs["sminfo -C mlx5_0 -P 1"] = (
        f"sminfo: sm lid 9 sm guid {OTHER:#x}, activity count 9 priority 3 state 2 SMINFO_STANDBY\n"
    )
    with pytest.raises(Refused, match=r"a subnet manager \(priority 3\) of the subnet of mlx5_0"):
        converge(node, subnet_manager, arguments(), check=False)
