"""Who is at fault where ranks failed: from what ranks, nodes and NCCL said."""
