"""Seconds to load and check a site of 500 and of 5,000 hosts, and the cost of one host.

    python bench/inventory.py [HOSTS ...]

Two sites: `templated`, in which every rail's address is made from the host's own numbers, as in
inventory/prod, and `written`, in which each host has its rails written out, 3 MB of YAML.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rdmaprov import contract
from rdmaprov.inventory import load_site

RAILS = 8
COMMON = """\
---
fabric_kind: roce
fabric_link_gbps: 400
fabric_gpu_count: 8
fabric_memory_bytes: 2T
ofed_source: doca
ofed_version: 3.1.0
fabric_neighbor_entries: 131072
"""


def rails(high: object, low: object) -> str:
    """Return fabric_rails of a node, one /11 for each rail."""
    entries = (
        f'{{netdev: rail{i}, gpus: [{i}], address: "10.{32 * i}.{high}.{low}/11"}}'
        for i in range(RAILS)
    )
    return "[" + ", ".join(entries) + "]"


def templated(site: Path, count: int) -> None:
    """Write a site whose hosts have two numbers each."""
    hosts = "".join(f"    n{n:05}: {{h: {n // 250}, l: {n % 250 + 1}}}\n" for n in range(count))
    (site / "hosts.yml").write_text(f"nodes:\n  hosts:\n{hosts}")
    variables = f"fabric_rails: {rails('{{ h }}', '{{ l }}')}\n"
    (site / "group_vars" / "all.yml").write_text(COMMON + variables)


def write_site(site: Path, count: int) -> None:
    """Write a site whose hosts have their rails each."""
    hosts = "".join(
        f"    n{n:05}: {{fabric_rails: {rails(n // 250, n % 250 + 1)}}}\n" for n in range(count)
    )
    (site / "hosts.yml").write_text(f"nodes:\n  hosts:\n{hosts}")
    (site / "group_vars" / "all.yml").write_text(COMMON)


def measure(kind: str, count: int) -> None:
    """Load and check a new site, and say what it took."""
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory)
        (site / "group_vars").mkdir()
        {"templated": templated, "written": write_site}[kind](site, count)
        start = time.process_time()
        fleet = load_site(site)
        loaded = time.process_time() - start
        problems = contract.problems(fleet)
        checked = time.process_time() - start
    if problems or len(fleet.nodes) != count:
        raise SystemExit(f"the site is wrong: {[problem.text() for problem in problems[:3]]}")
    print(
        f"{kind:9} {count:6} hosts: load {loaded:6.2f} s, {loaded / count * 1e3:.2f} ms a host; "
        f"with the contract {checked:6.2f} s, {checked / count * 1e3:.2f} ms a host",
        flush=True,
    )


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:]] or [500, 5000]
    for kind in ("templated", "written"):
        for count in counts:
            measure(kind, count)
