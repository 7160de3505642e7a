"""What `rdmaprov subnet` does; apart from its options, so that help stays fast."""

import re
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Unpack

from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.subnet_view import after_end, pattern_lines, problem_lines, size_of
from rdmaprov.cli.verbosity import meter
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.probe.fleet import open_probe
from rdmaprov.probe.session import Limits
from rdmaprov.problem import display_path, printable
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.files import write_bytes_whole
from rdmaprov.site_subnet.engine_log import engine_logs
from rdmaprov.site_subnet.gather import Gathered, gather
from rdmaprov.site_subnet.hosts import FabricHost, NodeOfSite, ThisMachine
from rdmaprov.site_subnet.judge_site import SiteAssessment, judge_site
from rdmaprov.site_subnet.partition_tables import PartitionTables, partition_tables
from rdmaprov.site_subnet.plan import SubnetPlan, host_keys, plan_of
from rdmaprov.site_subnet.result import findings_data, nodes_data, subnets_data
from rdmaprov.site_subnet.sharp_job import SharpJob, sharp_jobs
from rdmaprov.subnet.collect import require_new
from rdmaprov.subnet.problem import where
from rdmaprov.terminal import Line
from rdmaprov.words import quantity

_WORDS = {ExitCode.OK: "healthy", ExitCode.FAILED: "wrong", ExitCode.UNKNOWN: "unknown"}


def site_lines(found: SiteAssessment, gathered: Gathered) -> Iterator[str]:
    """Yield the problems, the load of each pattern, and the verdict in the last line."""
    plan = found.plan
    yield from problem_lines(found.findings, _sentence, "results.json")
    for device, assessment in gathered.subnets.items():
        if len(gathered.subnets) > 1:
            yield f"subnet of {device}: {size_of(assessment)}"
        yield from pattern_lines(assessment)
    rails = quantity(len(plan.rails), "rail")
    there = [size_of(each) for each in found.subnets] if len(found.subnets) == 1 else []
    parts = [f"{quantity(len(plan.nodes), 'node')}, {rails}", *there]
    where = f"; read from {gathered.host}" if gathered.host else "; nothing was read"
    yield f"{_WORDS[found.exit_code]}: {'; '.join(parts)}{where}"


def _sentence(finding: Finding) -> str:
    """Return what is wrong, after the rail of the site and the end of the link."""
    place = where(finding)
    if not place or finding.part == finding.node:
        return after_end(finding)
    return finding.what if finding.what.startswith(place) else f"{place}: {after_end(finding)}"


_TRIED = 3  # nodes that are tried if none is named; our choice
# Linux include/rdma/ib_verbs.h, IB_DEVICE_NAME_MAX with its final zero.
_DEVICE = re.compile(r"[\w.-]{1,63}")


def judge_subnet(
    site: Path,
    limit: str | None,
    sources: str,
    here: bool,
    devices: str,
    interval_s: float,
    save: Path | None,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Judge the subnet of a site; return the exit code.

    Raises:
        UsageError: options contradict each other, or name what is not there.
    """
    if here and sources:
        raise UsageError("--here and --from exclude each other", "Pass one of them.")
    if save is not None:
        require_new(save)
    named = _devices(devices)
    started = datetime.now(UTC).astimezone()
    wait = (lambda: time.sleep(interval_s)) if interval_s else None
    with session.prepare(site, limit, json_file, passwords) as ready:
        plan = plan_of(ready.fleet, is_whole=limit is None)
        with (
            _hosts(ready, sources, here, plan) as reached,
            tempfile.TemporaryDirectory(prefix="rdmaprov-subnet-") as scratch,
        ):
            directory = Path(scratch) / "texts"
            with meter("reading the fabric"):
                gathered = gather(reached.hosts, named, directory, wait)
                subnets = list(gathered.subnets.values())
                logs = engine_logs(plan, subnets, reached.nodes.get)
                jobs, tables = _asked(plan, gathered)
            if save is not None and gathered.host:
                _copy(directory, save)
        found = judge_site(plan, subnets, gathered.not_read, logs, jobs, tables)
        head = Head("subnet", site, limit, started, ready.waivers)
        _conclude(ready, head, gathered, found, save, json_file)
    return found.exit_code


def _copy(directory: Path, save: Path) -> None:
    for path in sorted(directory.rglob("*")):
        there = save / path.relative_to(directory)
        if path.is_dir():
            there.mkdir(parents=True, exist_ok=True)
        else:
            there.parent.mkdir(parents=True, exist_ok=True)
            write_bytes_whole(there, [path.read_bytes()], mode=0o666)


def _asked(plan: SubnetPlan, gathered: Gathered) -> tuple[list[SharpJob], PartitionTables]:
    """Return what the host that was read from is asked for the site's sake alone."""
    reader, subnets = gathered.reader, gathered.subnets
    if reader is None:
        return [], PartitionTables()
    jobs = sharp_jobs(plan, list(subnets.values()), reader, gathered.log)
    return jobs, partition_tables(plan, subnets, reader, gathered.log)


def _devices(text: str) -> list[str]:
    """Return the devices of an option, each once."""
    found = list(dict.fromkeys(name for name in text.replace(",", " ").split() if name))
    for name in found:
        if not _DEVICE.fullmatch(name) or name.startswith((".", "-")):
            raise UsageError(
                printable(f"--device: {name} is not the name of an RDMA device"),
                "Write a name that `ibstat -l` shows, such as mlx5_0",
            )
    return found


@dataclass(frozen=True)
class _Reached:
    """The hosts to read from, in order, and the nodes that can be asked by name."""

    hosts: Sequence[FabricHost]
    nodes: Mapping[str, FabricHost]


@contextmanager
def _hosts(
    ready: session.Prepared, sources: str, here: bool, plan: SubnetPlan
) -> Iterator[_Reached]:
    """Provide the hosts to read from, and the nodes with the logs of managers."""
    if here:
        mine = set(host_keys(socket.gethostname()))
        own = [name for name in plan.managers if mine.intersection(host_keys(name))]
        yield _Reached([ThisMachine()], dict.fromkeys(own, ThisMachine()))
        return
    wanted = [name for name in sources.replace(",", " ").split() if name]
    site = display_path(str(ready.fleet.site), Path.cwd())
    by_name = {node.name: node for node in ready.fleet.nodes}
    for name in wanted:
        if name not in by_name:
            raise UsageError(
                printable(f"--from: {name} is no node of {site}"),
                "Name nodes of the site, within --limit; or read from this machine: --here",
            )
    tried = wanted or list(by_name)[:_TRIED]
    managers = [name for name in plan.managers if plan.engine and name in by_name]
    nodes = tuple(by_name[name] for name in dict.fromkeys([*tried, *managers]))
    chosen = replace(ready.fleet, nodes=nodes)
    probe = open_probe(chosen, Limits(), together=False, become_password=ready.given.become)
    try:
        named = {node.name: NodeOfSite(node.name, probe) for node in nodes}
        yield _Reached([named[name] for name in tried], named)
    finally:
        probe.close()


def _conclude(
    ready: session.Prepared,
    head: Head,
    gathered: Gathered,
    found: SiteAssessment,
    save: Path | None,
    json_file: IO[str] | None,
) -> None:
    """Write and show the results."""
    more = {
        "from": gathered.host,
        "saved": str(save) if save is not None and gathered.host else None,
        "subnets": subnets_data(found, list(gathered.subnets)),
        "problems": findings_data(found),
    }
    with RunDirectory("subnet", ready.mask, "tools.log") as directory:
        directory.log("\n".join(gathered.log))
    ended = datetime.now(UTC).astimezone()
    data = results_document(head, ended, found.exit_code, nodes_data(found), more)
    text = directory.write_results(data)
    shown = map(Line, site_lines(found, gathered))
    session.conclude(directory, text, shown, ready.screen, json_file)
