"""Why perftest gave no number, by what it says; the texts are those of its source, 4.5 to 26.04."""

import re

from rdmaprov.perftest import errors
from rdmaprov.problem import printable

_MOST_SAID = 300
# In this order: what is said first is often a consequence ("Couldn't create IB resources").
_CAUSES = (
    (errors.COMPLETION, r"Completion with error|Failed status \d+:"),
    (errors.PORT_IN_USE, r"Couldn't listen to port|Address already in use"),
    (errors.NO_ANSWER, r"Couldn't connect to |Problem in resolving basic address"),
    (
        errors.NO_GPU_MEMORY,
        r"unrecognized option '--use_(?:cuda|rocm)|Unsupported memory type"
        r"|cu[A-Z]\w*(?:\(\d?\) | )(?:error=|returned )\d"
        r"|no available device\(s\) that support CUDA"
        r"|No such device ID|Couldn't init GPU context|Failed to load CUDA library"
        r"|DMA-?BUF (?:requested but )?(?:is )?not supported|does not support DMA-BUF"
        r"|supports? CUDA latency tests with",
    ),
    (
        errors.NO_MEMORY,
        r"Couldn't allocate MR|[Ff]ailed to create [Mm][Rr]|Cannot allocate memory|Out of memory"
        r"|Failed to init memory",
    ),
    (
        errors.NO_DEVICE,
        r"Did not detect devices|Unable to find the Infiniband/RoCE device"
        r"|IB device .{1,64} not found"
        r"|No IB devices found|Port number \d+ state is|Couldn't get context for the device"
        r"|Couldn't set the link layer|Unable to query port|Gid index should be|can't read sgid",
    ),
    (
        errors.NO_PATH,
        r"Failed to modify QP|Unable to Connect the HCA's through the link"
        r"|Incompatibility issue with GID types",
    ),
    (
        errors.REFUSED,
        r"Invalid Command|unrecognized option|invalid option|Parser function exited with Error"
        r"|Conflicting (?!CPU)|not compatible with versions",
    ),
    # It ends well, and all rates are 0: get_clock.c measures the counter of cycles against the time
    # of day, and takes none if they do not agree. Seen where the kernel had found the TSC unstable.
    (errors.NO_CLOCK, r"Correlation coefficient r\^2: [\d.]+ < "),
)
_PATTERNS = tuple((word, re.compile(pattern)) for word, pattern in _CAUSES)
# perftest says these before it takes memory of a GPU.
_GPU_WORDS = re.compile(r"initializing CUDA|Use ROCm memory|Using ROCm Device|GPU buffer|cuInit")


def cause(text: str) -> tuple[str, str]:
    """Return the word for what perftest says, and the line that says it; empty without one."""
    for word, pattern in _PATTERNS:
        for line in text.splitlines():
            if pattern.search(line):
                return _with_gpu(word, text), shown(line)
    return "", ""


def _with_gpu(word: str, text: str) -> str:
    """Return no-gpu-memory where it was a GPU's memory that could not be registered."""
    return errors.NO_GPU_MEMORY if word == errors.NO_MEMORY and _GPU_WORDS.search(text) else word


def shown(line: str) -> str:
    """Return a line of perftest's as it may be shown."""
    return printable(" ".join(line.split()))[:_MOST_SAID]


def last_line(text: str) -> str:
    """Return the last line that says anything, as it may be shown."""
    lines = [line for line in text.splitlines() if line.strip(" -*\t")]
    return shown(lines[-1]) if lines else ""
