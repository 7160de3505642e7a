"""What pages show of `rdmaprov explain`, which needs no site and no node, as it prints it now.

    python -m tests.unit.helpers.doc_outputs

writes it into the pages. A shown output that ends with a line `…` is the beginning of the real one.
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.unit.helpers.doc_sites import FENCE

from rdmaprov import cli

ROOT = Path(__file__).resolve().parents[3]
_NAMES = ("explain", "floor", "nccl-logs", "switches", "symptoms")
PAGES = ("README.md", *(f"docs/{name}.md" for name in _NAMES))
CUT = "…\n"


def shown(page: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a page that runs in a checkout, and the output below it."""
    for block in FENCE.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            if line.startswith("rdmaprov explain "):
                yield line, output


def current(line: str, output: str) -> str:
    """Return what a command prints, in a checkout; of it, as many lines as a page shows."""
    out = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out):
        cli.run(shlex.split(line)[1:])
    lines = out.getvalue().splitlines(keepends=True)
    count = len(output.splitlines()) - 1
    return "".join(lines[:count]) + CUT if output.endswith(CUT) else "".join(lines)


def main() -> None:
    for name in PAGES:
        text = (ROOT / name).read_text()
        for line, output in shown(text):
            text = text.replace(f"$ {line}\n{output}", f"$ {line}\n{current(line, output)}")
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
