"""Provision and validate bare-metal GPU nodes on RDMA fabrics."""

__version__ = "0.1.0"
