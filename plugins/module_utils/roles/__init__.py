"""One module for each role, with `plan(machine, arguments)`.

Found by the role's name. What a role needs beyond that is in a package or module beside this one.
"""

from __future__ import annotations

# In the order in which a play runs them.
ORDER = (
    "ofed",
    "fabric",
    "mlx5",
    "subnet_manager",
    "hugepages",
    "peermem",
    "mtu",
    "roce_qos",
    "limits",
    "pcie",
    "nccl",
    "torch_runtime",
)
