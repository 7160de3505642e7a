"""Hugepages: the kernel's pools, their owners, the unit that reserves them at boot."""
