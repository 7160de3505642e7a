"""Ranks that stay from one measurement to the next, and what is looked for with them."""
