"""Nodes asked many things over one connection each. See docs/architecture.md, "The probe"."""
