"""Which settings of NCCL are better than its defaults: what to measure, and what to believe."""
