"""Ethernet switches: what one answered about its own configuration, and what is wrong in it."""
