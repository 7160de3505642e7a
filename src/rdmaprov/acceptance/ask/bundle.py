"""What is sent to a node, as bytes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_HERE = Path(__file__).parents[1]
AGENT = "agent.pyz"


def agent_archive() -> bytes:
    """Return the agent as one file that Python runs, the same bytes for the same sources."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((_HERE / "agent").glob("*.py")):
            name = path.name if path.name == "__main__.py" else f"agent/{path.name}"
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
    return packed.getvalue()
