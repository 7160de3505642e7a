"""Whether NCCL loaded the tuner plugin of the site, and the plugin its file, by NCCL's logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.nccl_logs import RunLogs
from rdmaprov.acceptance.remedies import first_line
from rdmaprov.finding.finding import Finding, apply_remedy
from rdmaprov.inventory import Node
from rdmaprov.nccl_log.matrix import Process

_LOADED = re.compile(r"Loaded (\d+) tuning configurations")


def judge_tuner(site: GateSite, logs: RunLogs) -> Iterator[Finding]:
    """Yield the nodes on which the site's tuner plugin, or its file, has no effect.

    NCCL keeps its own tuner if it cannot load a plugin, and the example plugin runs without
    lines if it cannot read its file.
    """
    by_host: dict[str, list[Process]] = {}
    for process in logs.matrix.processes:
        by_host.setdefault(process.host.partition(".")[0], []).append(process)
    for node in site.nodes:
        plugin = str(node.get("nccl_tuner_plugin") or "")
        if not plugin or plugin == "none" or node.name not in logs.nodes:
            continue
        host = str(site.facts[node.name]["hostname"]).partition(".")[0]
        yield from _judge_node(node, plugin, [p.hints for p in by_host.get(host, ())])


def _judge_node(
    node: Node, plugin: str, processes: Sequence[Mapping[str, str]]
) -> Iterator[Finding]:
    without = [hints for hints in processes if "tuner" not in hints]
    failed = [hints["no_tuner"] for hints in without if "no_tuner" in hints]
    if failed:
        what = (
            f"NCCL did not load the tuner plugin {plugin}: its log says '{first_line(failed[0])}'"
        )
        remedy = (
            f"On {node.name}, where ranks run, install the library in a directory of the loader's, "
            "or write its path into nccl_tuner_plugin; compare the versions of plugin and NCCL"
        )
        yield Finding("nccl.tuner", what, remedy, node.name)
    elif without or not processes:
        what = f"whether NCCL loaded the tuner plugin {plugin}: its log does not say"
        remedy = f"On {node.name}, check that ranks read /etc/nccl.conf: a container has its own"
        yield Finding("nccl.tuner", what, remedy, node.name, proven=False)
    else:
        yield from _judge_file(node, processes)


def _judge_file(node: Node, processes: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """Yield what the plugin says of its file; only NCCL's example plugin says anything."""
    lines = str(node.get("nccl_tuner_config") or "").split("\n")
    due = sum(1 for line in lines if line and not line.startswith("#"))
    for said in (hints.get("tuner_file", "") for hints in processes if due):
        loaded = _LOADED.search(said)
        if said and (loaded is None or int(loaded[1]) != due):
            what = f"the tuner plugin did not read its file of {due} lines: '{first_line(said)}'"
            yield Finding("nccl.tuner", what, apply_remedy("nccl", node.name), node.name)
            return
