"""Paths of RDMA from one rail to another, measured without a collective."""
