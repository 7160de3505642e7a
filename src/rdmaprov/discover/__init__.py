"""Real nodes, read into host variables."""
