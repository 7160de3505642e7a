"""What files show, each kind of them by its reader, and all of them together.

`INPUTS` has a row for each kind; docs/explain.md shows them. A text is known by what only one tool
writes; one that two rows know is of none of them, unless both tools write to the same standard
output (`output`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.explain import (
    fabric,
    flight,
    job_logs,
    nccl_tests,
    perf_result,
    ports,
    ras_report,
    topology,
)
from rdmaprov.explain.join import join
from rdmaprov.explain.kernel_text import read as read_kernel_log
from rdmaprov.explain.model import MOST_BYTES, MOST_BYTES_IN_ALL, GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable

_KNOWN = "which texts are known: docs/explain.md"


def explain_texts(given: Iterable[GivenText]) -> list[Shown]:
    """Return what texts show, in the order of the table of inputs; what is unknown comes last.

    Raises:
        UsageError: they are too large to be held at once.
    """
    by_input: dict[str, list[GivenText]] = {}
    unknown: list[Shown] = []
    held = 0
    for each in given:
        kinds = [] if each.data.isspace() or each.unpack else find_inputs(each)
        if (why := _refusal(each, kinds)) is not None:
            unknown.append(Shown("", (each.name,), findings=(why,)))
            continue
        # The logs of a thousand ranks are read again, one after the other.
        text = each.light() if [kind.id for kind in kinds] == ["job"] else each
        held += len(text.data)
        if held > MOST_BYTES_IN_ALL:
            raise UsageError(
                f"{printable(each.name)}: with it, the files have more than"
                f" {MOST_BYTES_IN_ALL >> 20} MiB",
                "Pass fewer of them; of dumps, those of the ranks that differ.",
            )
        for kind in kinds:
            by_input.setdefault(kind.id, []).append(text)
    shown = [
        found
        for kind in INPUTS
        if kind.read is not None and kind.id in by_input
        for found in kind.read(by_input[kind.id])
    ]
    return join(shown) + unknown


def _refusal(given: GivenText, kinds: Sequence[InputKind]) -> Finding | None:
    """Return why a text is not read, None if it is."""
    names = " and ".join(kind.id for kind in kinds)
    if not given.data.strip():
        return unread(given.name, "is empty", "save the output again")
    if tool := given.unpack:
        return unread(given.name, "is compressed", f"unpack it: {tool} FILE | rdmaprov explain -")
    if not kinds:
        return unread(given.name, "is no text that is known, or lacks what tells which", _KNOWN)
    if len(kinds) > 1 and not all(kind.output for kind in kinds):
        return unread(
            given.name, f"has texts of several tools: {names}", "pass each in its own file"
        )
    lacks = next((kind for kind in kinds if kind.read is None), None)
    if lacks is not None:
        return unread(given.name, f"is {lacks.what}, which has no reader", lacks.instead)
    if not given.is_whole and names != "job":
        size = f"{MOST_BYTES >> 20} MiB"
        return unread(given.name, f"{names}: has more than {size}", "cut out the part that matters")
    return None


@dataclass(frozen=True)
class InputKind:
    """A row of the table.

    Attributes:
        only: finds what only this tool writes, in a text.
        read: returns what texts of it show; None: no reader yet.
        document: returns whether a JSON is of it; None if its tool writes none.
        output: whether its text may stand among what others of this sort write.
        instead: what to do without a reader.
        seems: returns whether a text that no row knows is of it.
    """

    id: str
    what: str
    only: re.Pattern[bytes]
    read: Callable[[Sequence[GivenText]], list[Shown]] | None = None
    tells: str = ""
    not_tells: str = ""
    document: Callable[[Mapping[str, Any]], bool] | None = None
    output: bool = False
    instead: str = ""
    seems: Callable[[GivenText], bool] | None = None

    def knows(self, given: GivenText) -> bool:
        """Return whether a text is of this row."""
        if given.document:
            return self.document is not None and self.document(given.document)
        return self.only.search(given.data) is not None


def _only(*patterns: str) -> re.Pattern[bytes]:
    """Return one pattern of several; an anchor that some begin with is tried once for all."""
    every = []
    for anchor in ("^", r"\b", ""):
        own = [each for each in patterns if each.startswith(anchor)]
        patterns = tuple(each for each in patterns if each not in own)
        if own:
            every.append(f"{anchor}(?:{'|'.join(each.removeprefix(anchor) for each in own)})")
    return re.compile("|".join(every).encode(), re.MULTILINE)


def _each(read: Callable[[GivenText], Shown]) -> Callable[[Sequence[GivenText]], list[Shown]]:
    return lambda every: [read(each) for each in every]


# What names a version alone: of NCCL, if nothing else is in it.
_VERSION = re.compile(rb"^.{0,80}\b[NR]CCL version (?:: )?\d+\.\d+\.\d+\S*", re.MULTILINE)

INPUTS = (
    InputKind(
        "job",
        "NCCL's logs (`NCCL_DEBUG=INFO`), torch's errors, its watchdog and elastic agent",
        _only(
            r"\bR?NCCL (?:INFO|WARN) ",
            r"\bNCCL DIAG \[",
            r"ProcessGroupNCCL\.cpp",
            r"NCCLUtils\.[ch]pp",
            r"\btorch\.distributed\.Dist\w+Error",
            r"\btorch\.(?:cuda\.)?OutOfMemoryError",
            r"\btorch\.AcceleratorError",
            r"Root Cause \(first observed failure\)",
            r"\bLast (?:error|RCCL warning): *$",
            r"torch\.distributed\.elastic",
            r"\bTest (?:CUDA|NCCL) failure \S+:\d+ ",
        ),
        job_logs.read,
        "why the job failed; transport, HCAs and GPUDirect RDMA between nodes",
        "which end of a path is at fault; bandwidth",
        document=job_logs.is_elastic,
        output=True,
        seems=lambda given: not given.document and _VERSION.search(given.data) is not None,
    ),
    InputKind(
        "nccl-tests",
        "tables and JSON (`-J`) of nccl-tests and rccl-tests",
        _only(
            r"# [nr]ccl-tests:? +[vV]ersion",
            r"# nThreads?:? +\d+ +nGpus",
            r"# Collective test (?:starting|concluded): ",
            r"# +size +count +type .{0,400}busbw",
            r"# Out of bounds values +: \d",
            r"# Avg bus bandwidth +: ",
        ),
        _each(nccl_tests.read),
        "wrong values; bus bandwidths, in place and out of place",
        "whether a bandwidth is low: that takes rails and their rate; which host damages data",
        document=lambda found: "out_of_bounds" in found and "average_bus_bandwidth" in found,
        output=True,
    ),
    InputKind(
        "ras",
        "what NCCL's RAS prints (`ncclras`, port 28028), as text or JSON",
        _only(
            r"^Job summary\r?\n=====",
            r"^Group +Comms +Nodes +Ranks",
            r"^#\d+-\d+ \([0-9a-f]{16}\) (?:INCOMPLETE|MISMATCH|ERROR)",
            r"^ +Missing communicator data from \d+ job process",
            r'^[ \t]{0,16}"communicators_count": ?\d',
        ),
        _each(ras_report.read),
        "which processes do not answer; errors that ranks report",
        "which rank keeps the others waiting: it is a snapshot",
        document=lambda found: "communicators_count" in found and "communicators" in found,
    ),
    InputKind(
        "flight-recorder",
        "dumps of torch's flight recorder, pickles and JSON",
        _only(
            r"\A\x80[\x02-\x05](?s:.){0,4096}(?:pg_config|comm_lib_version|nccl_version|entries)"
        ),
        flight.read,
        "which ranks called different operations; which rank did not join one",
        "whether an operation is overdue: that takes the watchdog's words",
        document=flight.is_dump,
    ),
    InputKind(
        "perftest",
        "what ib_write_bw and the other tests of perftest print, and their JSON",
        _only(
            r"^ ?#bytes +#iterations",
            r"^ +(?:RDMA_(?:Write|Read)|Send) (?:Bidirectional |Post List )?(?:BW|Latency) Test",
            r'^[ \t]*"?test_info"?: ?\{',
            r"^ib_(?:write|read|send|atomic)_(?:bw|lat): ",
            r"^[ \t]*Invalid Command or flag",
            r"^ ?Failed status \d+: wr_id",
            r"Couldn't connect to \S+:\d+",
            r"Couldn't allocate MR",
            r"Unable to find the Infiniband/RoCE device",
            r"Correlation coefficient r\^2: ",
        ),
        _each(perf_result.read),
        "whether RDMA works between two ports, and at which rate",
        "whether a rate is low: that takes the port's rate (ibstat)",
        document=lambda found: "test_info" in found,
    ),
    InputKind(
        "ibv_devinfo",
        "what ibv_devinfo prints, with or without -v",
        _only(r"^hca_id:\s+\S+"),
        _each(ports.reader("ibv_devinfo")),
        "which ports are active; RDMA MTU",
        "its host; which ports are rails",
    ),
    InputKind(
        "ibstat",
        "what ibstat prints",
        _only(r"^CA:? '[^'\n]{1,64}'\s*$"),
        _each(ports.reader("ibstat")),
        "which ports are active, and at which rate",
        "its host; which ports are rails",
    ),
    InputKind(
        "ibstatus",
        "what ibstatus prints",
        _only(r"^Infiniband device '[^'\n]{1,64}' port \d+ status:"),
        _each(ports.reader("ibstatus")),
        "which ports are active, and at which rate",
        "its host; which ports are rails",
    ),
    InputKind(
        "nvidia-smi-topo",
        "the matrix of nvidia-smi topo -m",
        _only(
            r"^GPU0[ \t]+X[ \t]", r"^[ \t]{0,16}(?:\x1b\[\d{0,3}m)?GPU0[ \t].{0,4096}CPU Affinity"
        ),
        _each(topology.read),
        "how GPUs reach each other; how far each is from a NIC",
        "whether NVLinks are up; what NCCL chose",
    ),
    InputKind(
        "kernel-log",
        "a log of the kernel (dmesg, journalctl -k, /var/log/messages)",
        _only(
            r"\bNVRM: Xid \(|\bnvidia-nvswitch\d+: SXid \(",
            r"^\S.{1,80}\bkernel: ",
            r"^(?:kern +:\w+ *: )?\[(?:[ \d.]+|\w{3} \w{3} [ \d:]{16,18})\] (?:\[ *[TC]\d+\] )?"
            r"(?:Linux version |NVRM: |mlx5_core |pcieport |mce: |INFO: task |watchdog: |Out of )",
        ),
        _each(read_kernel_log),
        "GPUs, NICs and parts that need a reset, a reboot or a look; programs that failed",
        "what came before its first line; its host",
    ),
    InputKind(
        "nvidia-smi-q",
        "what nvidia-smi -q prints",
        _only(r"^=+NVSMI LOG=+"),
        instead="read it by hand: Fabric State, ECC Errors, Clocks Event Reasons",
    ),
    InputKind(
        "subnet",
        "what infiniband-diags print of a subnet: "
        + ", ".join(f"`{each.command}`" for each in fabric.SUBNET_TEXTS),
        _only(*(each.only for each in fabric.SUBNET_TEXTS)),
        fabric.read_subnet,
        "ports, cables, error counters, subnet managers, routes, each of its own text",
        "what the other texts tell: rdmaprov explain subnet DIRECTORY takes all, and larger ones",
    ),
    InputKind(
        "switch",
        "what a switch answers: SONiC's CONFIG_DB, Cumulus' `nv show`, Arista's"
        " running configuration",
        _only(r"(?!)"),
        fabric.read_switches,
        "PFC, ECN, DSCP maps, buffers and MTU, by what is usual for RoCE",
        "whether a site's own settings are met: rdmaprov explain switch --site SITE",
        seems=fabric.is_switch,
    ),
)


def find_inputs(given: GivenText) -> list[InputKind]:
    """Return the rows that know a text: none, one, or several that share an output."""
    found = [each for each in INPUTS if each.knows(given)]
    return found or [each for each in INPUTS if each.seems and each.seems(given)][:1]
