"""Counters of rails over a run: traffic, errors of links, lost packets, changes."""
