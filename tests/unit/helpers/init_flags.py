"""Flags of `rdmaprov init` for two new sites, without those that tests vary."""

ROCE = ["--kind", "roce", "--nodes", "gpu[01:04],spare1", "--rails", "ens1,ens2", "--gbps", "400"]
IB = ["--kind", "infiniband", "--nodes", "ib1", "--rails", "0000:18:00.0,0000:40:00.0"]
