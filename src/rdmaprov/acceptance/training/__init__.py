"""A training step on the nodes: what it reaches, what was predicted, what is at fault."""
