"""What texts show together that none of them shows alone.

A text of a host's own tools does not name the host: its path does, if a host that a log names is
one of the path's words. Where no path does, a text counts for a job whose hosts all use the same
devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rdmaprov.bandwidth.rates import format_percent
from rdmaprov.explain import flight, perf_result, ports
from rdmaprov.explain.flight import FlightDump
from rdmaprov.explain.model import Shown
from rdmaprov.explain.nccl_tests import PerfTable, floor_command
from rdmaprov.explain.perf_result import ReadTest
from rdmaprov.explain.ports import HostPorts
from rdmaprov.explain.topology import GpuTopology
from rdmaprov.kernel_log.reader import KernelLog
from rdmaprov.nccl_log.assessment import LogAssessment
from rdmaprov.nccl_log.matrix import Gdr, Matrix
from rdmaprov.nccl_log.ras import RasReport
from rdmaprov.subnet.judge import Assessment
from rdmaprov.subnet.names import place
from rdmaprov.switches.judge import SwitchAssessment
from rdmaprov.words import some

_Parsed = TypeVar("_Parsed")
# Of a PCIe link's data rate, 256 of 280 bytes are payload; what perftest reaches is a little less.
_SLOT_SHARE = 0.75


def join(every: Sequence[Shown]) -> list[Shown]:
    """Return what texts show, judged again by what the others know; last, what they add up to."""
    log = next(iter(_all(every, LogAssessment)), None)
    hosts = _used(log.matrix) if log else {}
    found = [_judge_again(each, every, log, hosts) for each in every]
    if any(finding.kind == "rail.not-ready" for each in found for finding in each.findings):
        # A port that carries nothing matters more than the rate of another one.
        found.sort(key=lambda each: bool(_all([each], ReadTest)))
    together = [*_processes(every, log), *_floors(every, hosts), *_distances(every, log)]
    together += [*_slots(every), *_leaf_ports(every, hosts), *_switch_ports(every, hosts)]
    if together:
        files = dict.fromkeys(file for each in every for file in each.files)
        found.append(Shown("together", tuple(files), tuple(dict.fromkeys(together))))
    return found


def _all(every: Sequence[Shown], kind: type[_Parsed]) -> list[_Parsed]:
    return [part for shown in every for part in shown.parsed if isinstance(part, kind)]


def _judge_again(
    shown: Shown,
    every: Sequence[Shown],
    log: LogAssessment | None,
    hosts: dict[str, frozenset[str]],
) -> Shown:
    parts = shown.parsed
    has_timeout = log and any(each.cause == "timeout" for each in log.matrix.broken.troubles)
    if any(isinstance(each, FlightDump) for each in parts) and has_timeout:
        return flight.judge(_all([shown], FlightDump), is_overdue=True)
    part = parts[0] if parts else None
    if isinstance(part, HostPorts) and (used := _used_by(part.file, hosts)):
        return ports.judge(part, used)
    if isinstance(part, ReadTest) and not shown.findings and (gbps := _rate(part, every)):
        return perf_result.judge(part, gbps, doubt=_faster(part, every))
    return shown


def _used(matrix: Matrix) -> dict[str, frozenset[str]]:
    """Return the devices that each host of a job used or lost."""
    used: dict[str, set[str]] = {}
    for channel in matrix.channels:
        if channel.rank.host:
            used.setdefault(channel.rank.host, set()).update(channel.hcas)
    for error in matrix.errors:
        if error.host and error.hca:
            used.setdefault(error.host, set()).add(error.hca)
    return {host: frozenset(own) for host, own in used.items() if own}


def _used_by(file: str, hosts: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the devices that a file's host used; none if that is unknown."""
    for host, own in hosts.items():
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(host)}(?![A-Za-z0-9])", file):
            return own
    return next(iter(hosts.values())) if len(set(hosts.values())) == 1 else frozenset()


def _rate(test: ReadTest, every: Sequence[Shown]) -> float:
    """Return the rate of a test's port, 0 if texts of ports do not say it, or not the same."""
    rates = {
        port.gbps
        for listed in _all(every, HostPorts)
        for port in listed.ports
        if port.device == test.device and port.is_active
    }
    return rates.pop() if len(rates) == 1 else 0.0


def _faster(test: ReadTest, every: Sequence[Shown]) -> str:
    """Return which ports beside a test's are faster, if one host's are listed; empty if none is."""
    listed = _all(every, HostPorts)
    active = [port for port in listed[0].ports if port.is_active] if len(listed) == 1 else []
    own = next((port for port in active if port.device == test.device), None)
    top = max((port.gbps for port in active), default=0.0)
    if own is None or own.gbps >= top:
        return ""
    alike = sum((port.model, port.gbps) == (own.model, own.gbps) for port in active)
    which = f"one of {alike}" if alike > 1 else "the only one"
    names = some([port.name for port in active if port.gbps == top], 12)
    return (
        f"{own.device} is {which} {own.model}".rstrip() + f" of {own.gbps:g} Gb/s;"
        f" the {top:g} Gb/s ports are {names}: was the right device measured?"
    )


def _processes(every: Sequence[Shown], log: LogAssessment | None) -> Iterator[str]:
    """Yield which ranks the processes are that others name: by their ids, if only one has it."""
    ranks = log.matrix.broken.ranks if log else {}
    for event in (event for found in _all(every, KernelLog) for event in found.events):
        named = [(host, rank) for (host, pid), rank in ranks.items() if 0 < pid == event.pid]
        if len(named) == 1:
            yield f"{event.phrase}: that is rank {named[0][1]} on {named[0][0]}"
    for report in _all(every, RasReport):
        for process in report.unresponsive:
            named = [(host, rank) for (host, pid), rank in ranks.items() if pid == process.pid]
            if len(named) == 1:
                host, rank = named[0]
                who = f"process {process.pid} on {process.node}"
                yield f"{who}, which RAS does not hear, is rank {rank} on {host}"


def _slots(every: Sequence[Shown]) -> Iterator[str]:
    """Yield which rates are what a PCIe link carries that a log of the kernel calls narrow."""
    links = [event for log in _all(every, KernelLog) for event in log.events if event.gbps]
    for test in _all(every, ReadTest):
        best = 8 * max((each.gb_s for each in test.figures), default=0.0)
        for link in links:
            if _SLOT_SHARE <= best / link.gbps <= 1:
                share = format_percent(best / link.gbps)
                where = f"/sys/class/infiniband/{test.device or '*'}/device"
                yield (
                    f"{test.device or test.file}: {best:.4g} Gb/s is {share} of what the PCIe link"
                    f" of {link.device} carries, as much as such a link gives: if that is this NIC"
                    f" (readlink -f {where}), its link is why"
                )


def _floors(every: Sequence[Shown], hosts: dict[str, frozenset[str]]) -> Iterator[str]:
    """Yield the commands that judge tables of all-reduce, with rails and rates where known."""
    listed = _all(every, HostPorts)
    for table in _all(every, PerfTable):
        if table.collective != "all_reduce" or len(table.hosts) < 2 or not table.best[1]:
            continue
        for found in listed:
            used = _used_by(found.file, hosts)
            rails = [port for port in found.ports if port.is_active and port.gbps]
            rails = [port for port in rails if port.device in used] if used else rails
            top = max((port.gbps for port in rails), default=0.0)
            number = sum(port.gbps == top for port in rails)
            models = {port.model for port in rails if port.gbps == top} - {""}
            # The floor of those that are left alone would hide that rails are lost.
            lost = 0 if used else len(ports.lost_rails(found.ports, models))
            if number:
                number += lost
                fast = f"{number} fastest ports" + (f", {lost} of them down," if lost else "")
                sure = "" if used else f", if the {fast} of {found.file} are rails"
                yield f"judge the bandwidth{sure}: {floor_command(table, str(number), f'{top:g}')}"
                break


def _distances(every: Sequence[Shown], log: LogAssessment | None) -> Iterator[str]:
    """Yield whether distance explains that GPUDirect RDMA is off."""
    if log is None or log.verdict.gdr not in (Gdr.NONE, Gdr.SOME) or not log.verdict.hcas:
        return
    for found in _all(every, GpuTopology):
        far = [gpu for gpus in found.far.values() for gpu in gpus]
        if far:
            names = some(far, 4)
            yield f"GPUDirect RDMA is off, and {names} have no NIC up to PXB: that explains it"
        elif found.nics and found.gpus:
            yield (
                "GPUDirect RDMA is off though each GPU has a near NIC, so distance is not why:"
                " nvidia_peermem, DMA-BUF, NCCL_NET_GDR_LEVEL"
            )


def _leaf_ports(every: Sequence[Shown], hosts: dict[str, frozenset[str]]) -> Iterator[str]:
    """Yield what is wrong with the links of devices that the job used, or lost."""
    used = {(_short(host), device) for host, devices in hosts.items() for device in devices}
    for found in _all(every, Assessment):
        for hca in found.fabric.hcas:
            at = place(hca.end.name)
            leaf = found.fabric.label(hca.switch)
            ends = ((hca.end.name, hca.end.port), (leaf, hca.port))
            wrong = [each.what for each in found.problems if (each.part, each.port) in ends]
            if wrong and (_short(at.host), at.device) in used:
                yield (
                    f"{at.host} {at.device}, which the job used, is on {leaf} port {hca.port}:"
                    f" {'; '.join(wrong)}"
                )


def _switch_ports(every: Sequence[Shown], hosts: dict[str, frozenset[str]]) -> Iterator[str]:
    """Yield what is wrong with ports that lead to hosts of the job, as switches name them."""
    names = {_short(host): host for host in hosts}
    for found in _all(every, SwitchAssessment):
        for port in found.ports:
            words = re.split(r"[^\w-]+", f"{port.neighbour} {port.description}")
            wrong = [
                each.what
                for each, own in found.problems.items()
                if each.proven and port.name in own
            ]
            for host in (names[word] for word in dict.fromkeys(words) if word in names):
                if wrong:
                    yield f"{found.reading.name} {port.name} leads to {host}: {'; '.join(wrong)}"


def _short(host: str) -> str:
    return host.partition(".")[0]
