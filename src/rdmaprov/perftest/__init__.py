"""Paths over RDMA itself, by perftest: what to test, what to expect of it, and what it shows.

Nothing here knows a connection: the acceptance runs the tests, a made-up fleet answers in tests.
"""
