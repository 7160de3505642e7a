"""perftest (linux-rdma/perftest): its options, what it prints, and how it fails."""
