"""The virtual RDMA cluster."""
