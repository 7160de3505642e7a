"""Nodes asked many things over one connection each. See docs/decisions/validate.md."""
