"""Read nodes into host variables."""
