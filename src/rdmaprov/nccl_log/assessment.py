"""What the logs of one job amount to: why it failed, its transport, what differs, notes."""

from __future__ import annotations

from dataclasses import dataclass

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.diagnosis import conclude
from rdmaprov.nccl_log.failure import judge_failure
from rdmaprov.nccl_log.hosts import compare_hosts, unequal_ranks
from rdmaprov.nccl_log.judgement import absent_ranks, diagnosed, sentence
from rdmaprov.nccl_log.matrix import Matrix, Transport, TransportVerdict
from rdmaprov.nccl_log.remedies import unasked


@dataclass(frozen=True)
class LogAssessment:
    """What the logs of a job amount to.

    Args:
        matrix: what they say.
        verdict: the transport.
        failed: why the job failed; empty if no line says that it did.
        problems: what is wrong beside that, or unknown.
        notes: what else is worth a look.
        is_expected: whether the transport was judged by what somebody expects.
    """

    matrix: Matrix
    verdict: TransportVerdict
    failed: list[Finding]
    problems: list[Finding]
    notes: list[str]
    is_expected: bool

    @property
    def exit_code(self) -> ExitCode:
        """Return 1 if something is wrong, 4 if the transport is unknown or not shown, else 0."""
        if any(each.proven for each in self.failed + self.problems):
            return ExitCode.FAILED
        is_open = self.is_expected and bool(self.failed + self.problems)
        is_unknown = self.verdict.transport is Transport.UNKNOWN
        return ExitCode.UNKNOWN if is_unknown or is_open else ExitCode.OK


def assess(
    matrix: Matrix,
    wanted: Transport | None = None,
    *,
    gdr_required: bool = False,
    every_rank: bool = True,
) -> LogAssessment:
    """Return what a job's logs amount to.

    Args:
        matrix: what the logs say.
        wanted: the transport that is expected, if any.
        gdr_required: whether GPUDirect RDMA is expected.
        every_rank: whether a rank without a line is a finding.
    """
    verdict = transport.verdict(matrix)
    problems = transport.judge(matrix, wanted, None, gdr_required, every_rank=every_rank)
    notes = [sentence(absent_ranks(matrix))] if matrix.absent and not every_rank else []
    faults, others = conclude(matrix.diagnostics)
    problems += map(diagnosed, faults)
    failed, victims = judge_failure(matrix)
    differences, settings = compare_hosts(matrix)
    is_broken = bool(failed)
    if is_broken:
        failed += differences
        if wanted is None:  # what the logs do not show of transports is no question then
            problems = [each for each in problems if each.kind != "nccl.log"]
    else:
        problems += differences
    notes += [*others, *victims, *settings, *filter(None, [unequal_ranks(matrix)])]
    if wanted is None and not is_broken:
        notes += unasked(matrix)
    return LogAssessment(matrix, verdict, failed, problems, notes, wanted is not None)
