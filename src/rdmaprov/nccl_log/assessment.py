"""What the logs of one job amount to: why it failed, its transport, in what hosts differ, notes."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.causes import causes
from rdmaprov.nccl_log.diagnosis import conclude
from rdmaprov.nccl_log.failure import judge_failure
from rdmaprov.nccl_log.judgement import absent_ranks, diagnosed, sentence
from rdmaprov.nccl_log.matrix import Matrix, Transport, TransportVerdict
from rdmaprov.nccl_log.remedies import unasked
from rdmaprov.words import quantity, some

_FEW = 4
_OLD = "before 2.22"
_SINCE = (2, 22)
# What differs by host, or by rank, on purpose.
_PRIVATE = {"NCCL_HOSTID", "NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME", "NCCL_COMM_ID", "NCCL_IB_HCA"}
_SAME = "use one version on all nodes"


@dataclass(frozen=True)
class LogAssessment:
    """What the logs of a job amount to."""

    matrix: Matrix
    verdict: TransportVerdict
    failed: list[Finding]  # why the job failed; empty if no line says that it did
    problems: list[Finding]  # what is wrong beside that, or unknown
    notes: list[str]
    is_expected: bool  # whether the transport was judged by what somebody expects
    reasons: tuple[str, ...] = ()  # notes on why the transport is what it is, or why a job may hang

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
    notes += [*others, *(victims if is_broken else ()), *settings]
    reasons = [*(() if is_broken else victims), *filter(None, [unequal_ranks(matrix)])]
    if wanted is None and not is_broken:
        reasons += unasked(matrix)
    return LogAssessment(
        matrix, verdict, failed, problems, notes, wanted is not None, tuple(reasons)
    )


def compare_hosts(matrix: Matrix) -> tuple[list[Finding], list[str]]:
    """Return the differences that break jobs or slow them, and notes on the other ones."""
    said = _said(matrix)
    found = [*_networks(said), *_one_name(matrix), *_versions(matrix, said), *_devices(matrix)]
    return found, list(_settings(said))


def _said(matrix: Matrix) -> dict[str, dict[str, str]]:
    """Return by name what hosts said, with the value of each host that has one alone."""
    values: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for process in matrix.processes:
        for name, value in process.said.items():
            if process.host:
                values[name][process.host].add(value)
    return {
        name: {host: next(iter(one)) for host, one in hosts.items() if len(one) == 1}
        for name, hosts in values.items()
    }


def _differ(values: Mapping[str, str]) -> str:
    """Return who has which value, those that fewer have first; empty if all have the same."""
    count = Counter(values.values())
    if len(count) < 2:
        return ""
    each = [
        f"{value} on {some(sorted(h for h, own in values.items() if own == value), _FEW)}"
        for value, _ in sorted(count.items(), key=lambda one: (one[1], one[0]))
    ]
    return some(each, _FEW)


def _networks(said: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    networks, plugins = said.get("network", {}), said.get("plugin", {})
    what, differ = "use different networks", _differ(networks)
    if not differ and not plugins.keys() & networks.keys():
        what, differ = "have different net plugins", _differ(plugins)
    if differ:
        yield Finding(
            "nccl.network",
            f"hosts {what}: {differ}",
            "check NCCL_NET, NCCL_NET_PLUGIN, the plugin and the devices of the host that differs",
        )


def _one_name(matrix: Matrix) -> Iterator[Finding]:
    """Yield hosts whose processes use different networks: more than one may have that name."""
    networks: defaultdict[str, set[str]] = defaultdict(set)
    for process in matrix.processes:
        if process.host and "network" in process.said:
            networks[process.host].add(process.said["network"])
    for host, names in sorted(networks.items()):
        if len(names) > 1:
            yield Finding(
                "nccl.network",
                f"{host}: its processes use different networks ({some(sorted(names), _FEW)}); these"
                " may be several hosts of one name",
                "give each host a name of its own, and compare their devices and plugins",
                node=host,
            )


def _versions(matrix: Matrix, said: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    versions = said.get("NCCL", {})
    if differ := _differ(versions):
        yield Finding("nccl.version", f"hosts have different versions of NCCL: {differ}", _SAME)
    # Only the first rank prints the version; others give theirs away.
    old = sorted(said.get(_OLD, {}).keys() - versions.keys())
    new = [v for v in matrix.versions if tuple(map(int, v.split(".")[:2])) >= _SINCE]
    if old and new and len(new) == len(matrix.versions):
        what = f"{some(old, _FEW)}: NCCL's words are those of versions {_OLD}, and the job has"
        yield Finding("nccl.version", f"{what} {new[0]}", _SAME, nodes=tuple(old))


def _devices(matrix: Matrix) -> Iterator[Finding]:
    hcas: dict[str, set[str]] = {}
    for process in matrix.processes:
        if process.host and process.hcas:
            hcas.setdefault(process.host, set()).update(process.hcas)
    most = max(map(len, hcas.values()), default=0)
    every = set().union(*hcas.values())
    closed = [each for each in matrix.broken.troubles if each.cause == "hca-open"]
    for host, own in sorted(hcas.items()):
        if len(own) < most:
            lacks = some(sorted(every - own), _FEW)
            is_closed = any(
                each.host == host and each.words.rpartition(" ")[2] in every - own
                for each in closed
            )
            yield Finding(
                "nccl.hca",
                f"{host}: NCCL found {quantity(len(own), 'HCA')}, and {most} on others; it lacks"
                f" {lacks}, and all ranks follow the one with the fewest",
                causes()["hca-open"].fix
                if is_closed
                else "run ibv_devinfo, and compare NCCL_IB_HCA",
                node=host,
                proven=is_closed,
            )


def _settings(said: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for name, values in sorted(said.items()):
        if name.startswith("NCCL_") and name not in _PRIVATE and (differ := _differ(values)):
            yield f"hosts differ in {name}: {differ}"


def unequal_ranks(matrix: Matrix) -> str:
    """Return that hosts have unequal numbers of ranks, where a job did not end its start."""
    if not matrix.unfinished or matrix.absent:
        return ""
    ranks = Counter(host for host, _ in matrix.broken.ranks)
    differ = _differ({host: quantity(count, "rank") for host, count in ranks.items()})
    return differ and (
        f"hosts have unequal numbers of ranks: {differ}; if the job hangs as it starts, try"
        " NCCL_NVLS_ENABLE=0"
    )
