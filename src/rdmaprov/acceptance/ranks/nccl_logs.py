"""NCCL's logs of a run, as the nodes packed them: kept as files, and read once."""

import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rdmaprov.acceptance.ranks.run import JobRun, NodeRun
from rdmaprov.nccl_log.matrix import Matrix
from rdmaprov.nccl_log.reader import make_matrix, read_texts

# A rank writes some 10 kB for each communicator; a file that is larger is no log of ours.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class RunLogs:
    """What NCCL's logs of a run say."""

    nodes: frozenset[str]
    matrix: Matrix


def read_run(ran: JobRun, keep: Callable[[str, str], Path | None] = lambda *_: None) -> RunLogs:
    """Return what NCCL's logs of a run say; each is kept by the name of its node and process."""
    nodes: set[str] = set()

    def texts() -> Iterator[tuple[str, str]]:
        for name, node in ran.nodes.items():
            for file, text in log_files(node):
                nodes.add(name)
                keep(f"{name}.{file}", text)
                yield f"{name}.{file}", text
            if node.diagnostics:
                text = "\n".join([*node.diagnostics, ""])
                keep(f"{name}.diagnostics", text)
                yield f"{name}.diagnostics", text

    matrix = make_matrix(*read_texts(texts()))
    return RunLogs(frozenset(nodes), matrix)


def log_files(node: NodeRun) -> Iterator[tuple[str, str]]:
    """Yield name and text of each log of a node; nothing of an archive that cannot be read."""
    if not node.logs:
        return
    try:
        with tarfile.open(fileobj=io.BytesIO(node.logs)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    text = file.read(_MOST_BYTES).decode("utf-8", "replace")
                    yield PurePosixPath(member.name).name, text
    except (tarfile.TarError, EOFError, OSError, ValueError):
        return
