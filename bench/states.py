"""States of 10,000 nodes, 64 kB each, read and judged: seconds, memory, and the odd ones.

    python bench/states.py [NODES] [--seed N]

One of a hundred is stale, one of another node, one unsigned and one of another site; each must be
named with its reason, and no other. What the site itself takes is measured apart.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.helpers.states import WRONG, SignedFleet

from rdmaprov.certificate.states import States
from rdmaprov.inventory import load_site

ODD = ("stale", "of another node", "unsigned", "of another site")
SIZE = 64_000


def write(place: Path, count: int, seed: int) -> tuple[Path, dict[str, str]]:
    """Write a fleet and its states; return its site, and what is odd by node."""
    fleet = SignedFleet(place, count, SIZE, seed)
    names = iter(fleet.random.sample(fleet.names, len(ODD) * (count // 100)))
    odd = {name: what for what in ODD for _, name in zip(range(count // 100), names, strict=False)}
    for name, what in odd.items():
        fleet.write(name, what)
    return fleet.site, {name: WRONG[what][0] for name, what in odd.items()}


def judge(site: Path, odd: dict[str, str]) -> None:
    """Judge the states of a site as validate does; print what that took."""
    begin = time.process_time()
    fleet = load_site(site)
    loaded, start = time.process_time(), time.monotonic()
    proofs = States(fleet, {}, 24 * 3600, time.time()).judge(site.parent / "states")
    seconds, spent = time.monotonic() - start, time.process_time() - loaded
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    found = {each.node: each.kind for each in proofs if each.kind}
    print(
        f"{len(proofs):,} states: {seconds:.1f} s, {spent:.1f} s of processor; the site "
        f"{loaded - begin:.1f} s; {most} MB in all; {len(found)} odd, "
        f"{'as made' if found == odd else 'NOT as made'}",
        flush=True,
    )
    os._exit(found != odd)


def main() -> None:
    """Write the states in a process of its own, and judge them in another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nodes", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        with context.Pool(1) as pool:
            site, odd = pool.apply(write, (Path(place), given.nodes, given.seed))
        process = context.Process(target=judge, args=(site, odd))
        process.start()
        process.join()
    sys.exit(process.exitcode)


if __name__ == "__main__":
    main()
