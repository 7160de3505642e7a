"""InfiniBand subnets: what infiniband-diags print of one, and what is wrong with it."""
