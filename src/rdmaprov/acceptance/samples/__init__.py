"""Counters of rails over time, as node/sampler.py reads them while ranks run."""
