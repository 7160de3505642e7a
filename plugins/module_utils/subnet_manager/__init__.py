"""A subnet manager on a node: its port, its configuration, its unit, and who else manages."""
