"""What came of a test, by what its two perftests said and how they ended."""

from __future__ import annotations

from rdmaprov.boundary import Document
from rdmaprov.perftest import errors
from rdmaprov.perftest.model import PathResult, PathTest
from rdmaprov.perftest.tool.failures import cause, last_line, shown
from rdmaprov.perftest.tool.output import read_figures, read_mtu

# Reasons of node/path_runner.py.
_REASONS = {"missing": errors.NO_PERFTEST, "timeout": errors.TIMEOUT, "silent": errors.NO_SERVER}


def outcome(
    test: PathTest,
    client: Document | None,
    server: Document | None,
    *,
    listened: bool,
    lost: str,
    mtu: int = 0,
) -> PathResult:
    """Return the result of a test.

    Args:
        client: how the client ended; None if it was not started, or its node is lost.
        server: how the server ended; None likewise.
        mtu: bytes of RDMA's MTU that the path must have; 0 for any.
    """
    if client is not None and client["rc"] == 0:
        figures = read_figures(client["out"], test.size)
        if figures is not None and bool(figures.usec) == (test.measures == "latency"):
            seen = read_mtu(client["out"]) or mtu
            if seen < mtu:
                said = f"packets of {seen} B, expected {mtu} B"
                return PathResult(test, error=errors.SMALL_MTU, said=said)
            return PathResult(test, figures.gb_s, figures.usec)
    if lost and (client is None or server is None):
        return PathResult(test, error=errors.NOT_RUN, said=shown(lost))
    if not listened:
        word, said = _own_reason(server) if server else (errors.NOT_RUN, "")
        return PathResult(test, error=word or errors.NO_SERVER, said=said)
    return _failure(test, client, server)


def _failure(test: PathTest, client: Document | None, server: Document | None) -> PathResult:
    """Return the result of a test whose client ended without a number.

    A client whose server fails says only that it cannot read from it.
    """
    if client is None:
        return PathResult(test, error=errors.NOT_RUN)
    mine, said = cause(client["out"])
    theirs, server_said = cause(server["out"]) if server else ("", "")
    if mine in ("", errors.NO_ANSWER) and theirs:
        return PathResult(test, error=theirs, said=server_said)
    if mine:
        return PathResult(test, error=mine, said=said)
    word, said = _own_reason(client)
    if word == errors.NO_NUMBERS and server and (server["rc"] or 0) < 0 and not server["why"]:
        word, said = _own_reason(server)
    return PathResult(test, error=word, said=said)


def _own_reason(ended: Document) -> tuple[str, str]:
    """Return the word for how a perftest ended, and what it said last."""
    word, said = cause(ended["out"])
    last = said or last_line(ended["out"])
    if word or ended["why"] in _REASONS:
        return word or _REASONS[ended["why"]], last
    if ended["why"] and ended["why"] != "ended":
        return errors.NOT_RUN, shown(ended["why"])
    if (ended["rc"] or 0) < 0:
        return errors.KILLED, last or f"signal {-ended['rc']}"
    return errors.NO_NUMBERS, last or f"exit status {ended['rc']}"
