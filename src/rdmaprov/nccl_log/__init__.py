"""NCCL's logs: which transport carried the data, and why not the expected one."""
