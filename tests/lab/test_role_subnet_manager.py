"""The subnet manager on a real node without InfiniBand: it is refused, and leaves nothing.

What runs with a port of InfiniBand is in tests/roles/test_subnet_manager_ibsim.py.
"""

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
LEFT = (
    "ls -d /etc/opensm/rdmaprov* /etc/systemd/system/rdmaprov-opensm* /etc/systemd/system/opensm*"
)


def test_node_that_is_not_named_is_left_alone(lab, play):
    assert not play.changes({"subnet_manager_hosts": ["node2", "node3"]})
    assert lab.call(NODE, LEFT).stdout == ""


def test_port_of_ethernet_is_refused_before_anything_is_installed(lab, play):
    assert play.run({"subnet_manager_hosts": [NODE, "node2"]}).returncode != 0
    assert (
        "the link layer of mlx5_0 is Ethernet, and a subnet manager needs InfiniBand" in play.said
    )
    assert lab.call(NODE, LEFT).stdout == ""
    assert lab.call(NODE, "command -v opensm").stdout == ""
