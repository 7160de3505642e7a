"""Every generated file of the collection, with its text."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from plugins.module_utils.roles import ORDER
from tools import nccl_wordings
from tools.generate import arguments, defaults, image, readme
from tools.generate.role import read_role

from rdmaprov.acceptance.stage_report import IN_FILES

# The schemas that name the gate's stages.
SCHEMAS = ("results.schema.json", "certificate.schema.json")
ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
# The files that repeat the version of pyproject.toml, with what stands before it.
VERSIONED = {
    "galaxy.yml": "version: ",
    "src/rdmaprov/__init__.py": '__version__ = "',
    "README.md": "**Status:** ",
}


def outputs() -> dict[Path, str]:
    """Return the text of each generated file by its path."""
    roles = {path.name: read_role(path) for path in sorted((ROOT / "roles").iterdir())}
    found: dict[Path, str] = {}
    for role in roles.values():
        found[role.path / "defaults" / "main.yml"] = defaults.text(role)
        page = role.path / "README.md"
        found[page] = readme.text(role, page.read_text())
    found[PLUGINS / "module_utils" / "argument_specs.py"] = arguments.text(ORDER)
    for name in SCHEMAS:
        page = ROOT / "docs" / name
        found[page] = stages_named(page.read_text())
    page = ROOT / nccl_wordings.PAGE
    found[page] = nccl_wordings.place_in_page(page.read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    found[ROOT / image.FILE] = image.requirements(lock, project["dependencies"])
    for name, before in VERSIONED.items():
        text = (ROOT / name).read_text()
        found[ROOT / name] = re.sub(
            rf"^({re.escape(before)})[\d.]*\d", rf"\g<1>{project['version']}", text, flags=re.M
        )
    return found


def stages_named(schema: str) -> str:
    """Return a schema's text with the gate's stages wherever it lists them."""
    return re.sub(r'"enum": \["state", [^]]*\]', f'"enum": {json.dumps(IN_FILES)}', schema)
