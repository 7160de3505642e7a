"""RDMA driver packages: the vendor's, the distribution's, what is built from them."""
