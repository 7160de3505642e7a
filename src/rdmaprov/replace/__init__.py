"""A replaced node's way back into service, step by step; `rdmaprov.cli` has what steps do."""
