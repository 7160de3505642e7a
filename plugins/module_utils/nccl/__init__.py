"""nccl.conf, and what overrides it."""
