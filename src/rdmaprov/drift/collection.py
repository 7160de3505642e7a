"""The collection's plugins as an archive for nodes."""

import io
import zipfile
from functools import cache

from rdmaprov.resources import data_dir

PACKAGE = "rdmaprov_survey"
_WITH_ANSIBLE = "arguments.py"  # it needs Ansible's library
# The oldest date that a zip can hold, so that equal files make an equal archive.
_DATE = (1980, 1, 1, 0, 0, 0)


@cache
def archive() -> bytes:
    """Return module_utils as a zip with one package, PACKAGE, for a node without Ansible."""
    root = data_dir("plugins") / "module_utils"
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as opened:
        _add(opened, "__init__.py", b"")
        for name in sorted(files.keys() - {_WITH_ANSIBLE}):
            _add(opened, name, files[name].read_bytes())
    return written.getvalue()


def _add(opened: zipfile.ZipFile, name: str, text: bytes) -> None:
    entry = zipfile.ZipInfo(f"{PACKAGE}/{name}", _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    opened.writestr(entry, text)
