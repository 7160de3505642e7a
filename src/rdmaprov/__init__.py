"""Provision and validate bare-metal GPU nodes on RDMA fabrics."""

import sys

# Here, as everything below has words that older ones do not know; pip asks, a checkout does not.
if sys.version_info < (3, 11):  # noqa: UP036 - this is the line that says so
    _seen = f"{sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    sys.stderr.write(
        f"error: rdmaprov needs Python 3.11 or newer, and this is {_seen}\n"
        "hint:  In a checkout, run: make venv PYTHON=python3.11\n"
    )
    raise SystemExit(2)

__version__ = "0.2.0"
