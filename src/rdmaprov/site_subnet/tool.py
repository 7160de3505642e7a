"""One call of a tool of infiniband-diags on a host, and what its end means."""

import re
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from rdmaprov.problem import printable

# Our bound. dump_fts of 512 nodes with 8 rails is 46 MB; what a host sends is compressed.
MOST_TEXT_BYTES = 512 << 20
_GZIP = 31  # zlib, inflateInit2: a gzip head, and the largest window
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/opt/mellanox/sharp/bin"  # the last: sharp_hello of OFED
# Of a shell that finds no such program.
NOT_FOUND = 127
_MARK = "rdmaprov-exit"
_END = re.compile(rf"\n{_MARK} (\d{{1,3}})\n\Z")
_NOISE = re.compile(r"sim_connect: attached")  # ibsim's greeting to each client
_LONGEST = 160
# A shell's exit code of a program that crashed: 128 and SIGABRT, SIGBUS, SIGFPE or SIGSEGV.
_CRASHES = (134, 135, 136, 139)


@dataclass(frozen=True)
class ToolOutput:
    """What a tool printed."""

    text: str = ""
    errors: str = ""
    rc: int | None = None  # its exit code; None if it did not end in time, or was not started

    @property
    def has_crashed(self) -> bool:
        """Return whether a signal of its own making ended it, as its shell says that."""
        return self.rc in _CRASHES

    @property
    def is_partial(self) -> bool:
        """Return whether a switch did not answer: dump_fts leaves its LIDs out, and ends with 0."""
        return "SubnGet(LFT) failed on switch" in self.errors


def script(words: Sequence[str]) -> str:
    """Return what a shell of a host runs: the tool, its output compressed, with its exit code."""
    tool = shlex.quote(words[0])
    return (
        f'PATH="$PATH:{_SBIN}"; command -v {tool} >/dev/null || exit {NOT_FOUND};'
        f" {{ {shlex.join(words)}; printf '\\n{_MARK} %s\\n' $?; }} | gzip -1"
    )


def output_of(rc: int, data: bytes, errors: str) -> ToolOutput:
    """Return what the script gave; raise ValueError if it is no compressed text, or too much."""
    if rc == NOT_FOUND:
        return ToolOutput("", errors, NOT_FOUND)
    engine = zlib.decompressobj(_GZIP)
    try:
        raw = engine.decompress(data, MOST_TEXT_BYTES)
    except zlib.error as error:
        raise ValueError("its output is not compressed") from error
    if engine.unconsumed_tail:
        raise ValueError(f"its output exceeds {MOST_TEXT_BYTES >> 20} MiB")
    text = raw.decode("utf-8", "replace")
    end = _END.search(text[-_LONGEST:])
    if end is None:
        return ToolOutput(text, errors)
    return ToolOutput(text[: -len(end[0])], errors, int(end[1]))


def failure(tool: str, host: str, output: ToolOutput) -> str:
    """Return why a tool's text is not the whole truth; nothing if it is."""
    said = f"{output.errors}\n{output.text}" if output.rc else output.errors
    if output.rc is None:
        why = last_line(output.errors)
        return why if why.startswith(f"{host}: ") else f"{tool} on {host} gave no result: {why}"
    if output.rc == NOT_FOUND and not output.text:
        return f"{tool} is not installed on {host}; install infiniband-diags there"
    if "UMAD" in said or "umad" in said:
        return f"{tool} cannot open the umad device on {host}: {_umad_reason(said)}"
    if output.is_partial:
        return f"{tool} on {host} got no answer from a switch: {last_line(said)}"
    if output.rc == 0 and output.text.strip():
        return ""
    if output.rc == 0:
        return f"{tool} on {host} printed nothing: {last_line(said) or 'no reason given'}"
    return f"{tool} on {host} ended with code {output.rc}: {last_line(said) or 'no reason given'}"


def _umad_reason(said: str) -> str:
    """Return what to do, by what libibumad says where there is no module, and else."""
    if "ib_umad module" in said:
        return "it has none; load the module ib_umad, or read from a host with an HCA"
    return "run as root there, and look whether a port is active (ibstat)"


def last_line(text: str) -> str:
    """Return the last line that says something, as it can be shown; empty for none."""
    lines = [line.strip() for line in text.splitlines() if not _NOISE.search(line)]
    found = next((line for line in reversed(lines) if line), "")
    return printable(found[:_LONGEST])
