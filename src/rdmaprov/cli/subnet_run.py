"""What `rdmaprov subnet` does; apart from its options, so that help stays fast."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Unpack

from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.subnet_site_view import site_lines
from rdmaprov.cli.verbosity import meter
from rdmaprov.errors import UsageError
from rdmaprov.probe.fleet import open_probe
from rdmaprov.probe.session import Limits
from rdmaprov.problem import display_path, printable
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.site_subnet.gather import Gathered, gather
from rdmaprov.site_subnet.hosts import FabricHost, NodeOfSite, ThisMachine
from rdmaprov.site_subnet.judge_site import SiteAssessment, judge_site
from rdmaprov.site_subnet.plan import plan_of
from rdmaprov.site_subnet.result import findings_data, nodes_data, subnets_data
from rdmaprov.subnet.collect import require_new
from rdmaprov.terminal import Line

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
        with _hosts(ready, sources, here) as hosts, _directory() as directory:
            with meter("reading the fabric"):
                gathered = gather(hosts, named, directory, wait)
            if save is not None and gathered.host:
                shutil.copytree(directory, save, dirs_exist_ok=True)
        found = judge_site(plan, list(gathered.subnets.values()), gathered.not_read)
        head = Head("subnet", site, limit, started, ready.waivers)
        _conclude(ready, head, gathered, found, save, json_file)
    return found.exit_code


def _devices(text: str) -> list[str]:
    """Return the devices of an option, each once.

    Raises:
        UsageError: one cannot be the name of a device.

    """
    found = list(dict.fromkeys(name for name in text.replace(",", " ").split() if name))
    for name in found:
        if not _DEVICE.fullmatch(name) or name.startswith((".", "-")):
            raise UsageError(
                printable(f"--device: {name} is not the name of an RDMA device"),
                "Write a name that `ibstat -l` shows, such as mlx5_0",
            )
    return found


@contextmanager
def _hosts(ready: session.Prepared, sources: str, here: bool) -> Iterator[Sequence[FabricHost]]:
    """Provide the hosts to read from.

    Raises:
        UsageError: a named one is no node of the site.

    """
    if here:
        yield [ThisMachine()]
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
    nodes = tuple(by_name[name] for name in wanted or list(by_name)[:_TRIED])
    chosen = replace(ready.fleet, nodes=nodes)
    probe = open_probe(chosen, Limits(), together=False, become_password=ready.given.become)
    try:
        yield [NodeOfSite(node.name, probe) for node in nodes]
    finally:
        probe.close()


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rdmaprov-subnet-") as place:
        yield Path(place) / "texts"


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
