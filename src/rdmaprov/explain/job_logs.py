"""Logs of NCCL's and errors of torch's, all of one job: read as `explain nccl-log` reads them."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO

from rdmaprov.explain.model import HEAD_BYTES, GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.assessment import LogAssessment, assess
from rdmaprov.nccl_log.matrix import Transport
from rdmaprov.nccl_log.reader import UnreadableLogError, make_matrix, read_streams, refuse_binary


def is_elastic(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON is an error that torch's elastic agent kept."""
    message = document.get("message")
    extra = message.get("extraInfo") if isinstance(message, dict) else None
    return isinstance(extra, dict) and "py_callstack" in extra


def read(every: Sequence[GivenText]) -> list[Shown]:
    """Return what all logs of a job show; a binary one is apart."""
    good, bad = list[GivenText](), list[Shown]()
    for each in every:
        try:
            refuse_binary(each.data[:HEAD_BYTES], each.name)
        except UnreadableLogError as error:
            finding = unread(each.name, error.message, error.hint)
            bad.append(Shown("job", (each.name,), findings=(finding,)))
        else:
            good.append(each)
    return [*([_job(good)] if good else []), *bad]


def _job(every: Sequence[GivenText]) -> Shown:
    with ExitStack() as opened:
        streams = ((o.name, _elastic(o) or opened.enter_context(o.open())) for o in every)
        tally, _ = read_streams(streams)
        matrix = make_matrix(tally, ())
    found = assess(matrix)
    is_known = found.verdict.transport is not Transport.UNKNOWN
    return Shown(
        "job",
        tuple(each.name for each in every),
        findings=tuple(_findings(found)),
        proves=f"transport {found.verdict.transport}" if is_known else "",
        parsed=(found,),
    )


def _elastic(given: GivenText) -> BinaryIO | None:
    """Return the error that torch's elastic agent kept as JSON, as lines; None if it is none."""
    if not is_elastic(given.document):
        return None
    message = given.document["message"]
    text = f"{message['extraInfo']['py_callstack']}\n{message.get('message')}\n"
    return io.BytesIO(text.encode(errors="replace"))


def _findings(found: LogAssessment) -> Iterator[Finding]:
    """Yield what makes the exit code: without a failure, an open question only if it is all."""
    yield from (each for each in found.failed + found.problems if each.proven)
    if found.verdict.transport is Transport.UNKNOWN:
        unknown = [each for each in found.failed + found.problems if not each.proven]
        text = "neither a failure nor a transport is in them"
        fix = "run the job with NCCL_DEBUG=INFO, and pass the logs of all ranks"
        yield from unknown or [replace(unread("", text, fix), part="")]
