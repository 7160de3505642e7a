"""The README's picture: the top of the page of a refused fleet, docs/report.webp.

Refresh with: python -m tests.report.picture
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

from PIL import Image
from tests.report import gate_runs

from rdmaprov.report.write import html

PICTURE = Path(__file__).resolve().parents[2] / "docs/report.webp"
WIDTH, HEIGHT = 1280, 1728  # down to the end of the first plot


def run_of_rack1() -> dict[str, Any]:
    """Return an acceptance of rack1 of inventory/prod in which one rail is slow."""
    text = json.dumps({**gate_runs.accepted(16, pairs=True), "limit": "rack1"})
    return cast(dict[str, Any], json.loads(re.sub(r"\bgpu(\d\d)\b", r"gpu-1-\1", text)))


def main() -> None:
    chromium = shutil.which("chromium")
    assert chromium, "there is no chromium; run: make test-tools"
    with tempfile.TemporaryDirectory() as directory:
        page, shot = Path(directory, "page.html"), Path(directory, "page.png")
        page.write_text(html(run_of_rack1()), encoding="utf-8")
        subprocess.run(
            [
                *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *(f"--user-data-dir={directory}/profile", f"--window-size={WIDTH},{HEIGHT}"),
                *(f"--screenshot={shot}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )
        with Image.open(shot) as image:
            image.convert("RGB").save(PICTURE, lossless=True)


if __name__ == "__main__":
    main()
