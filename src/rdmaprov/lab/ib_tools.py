"""Programs that run a tool of InfiniBand on a node of a subnet on ibsim."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rdmaprov.lab import tools
from rdmaprov.lab.ib_topology import device_name, node_name

# Those of infiniband-diags 44 that ask a fabric by management packets.
_TOOLS = (
    "dump_fts", "dump_lfts", "dump_mfts", "ibaddr", "ibhosts", "iblinkinfo", "ibnetdiscover",
    "ibnodes", "ibportstate", "ibqueryerrors", "ibroute", "ibswitches", "ibtracert", "perfquery",
    "saquery", "smpdump", "sminfo", "smpquery", "vendstat",
)  # fmt: skip
# umad2sim gives a process one HCA, that of SIM_HOST: the option -C names another. A client that is
# killed leaves a directory where it ran.
_SCRIPT = """\
#!/bin/sh
device={device}
if [ "$1" = -C ]; then device=$2; shift 2; fi
cd {work} || exit
exec env {settings} SIM_HOST="{node} $device" {program} "$@"
"""


def write(directory: Path, work: Path, settings: Sequence[str]) -> None:
    """Write a program of its own name for each tool that is installed."""
    directory.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    for name in _TOOLS:
        program = tools.find(name)
        if program is None:
            continue
        path = directory / name
        path.write_text(
            _SCRIPT.format(
                device=device_name(0),
                work=shlex.quote(str(work)),
                settings=shlex.join(settings),
                node=node_name(1),
                program=shlex.quote(program),
            )
        )
        path.chmod(0o755)
