"""The acceptance gate: proof that nodes together move what their links can, over RDMA."""
