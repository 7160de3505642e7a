"""NCCL's logs of a run, as the nodes packed them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath

from rdmaprov.acceptance.job_run import NodeRun

# A rank writes some 10 kB for each communicator; a file that is larger is no log of ours.
_MOST_BYTES = 64 << 20


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
