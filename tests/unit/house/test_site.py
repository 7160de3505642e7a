"""`make site`: the pages as a web site, which no warning and no connection is needed for."""

import re
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from tests.unit.house.test_docs import HEADING, anchors
from tools.site_hooks import slug

ROOT = Path(__file__).resolve().parents[3]


def built(place: Path, **other: Any) -> Path:
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place / "site"), **other))
    return place / "site"


@pytest.mark.program
def test_site_is_built_and_needs_no_other_host(tmp_path):
    site = built(tmp_path)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert pages <= {path.stem for path in site.glob("*.html")}
    loaded = re.findall(r"<(?:link|script|img)[^>]*(?:href|src)=\"?(https?:[^\" >]+)", index(site))
    assert loaded == []


def index(site: Path) -> str:
    return (site / "index.html").read_text()


@pytest.mark.program
@pytest.mark.parametrize(
    ("text", "code"),
    [("[a](../LICENSE#b)", 0), ("[a](no.md)", 1), ("[a](#no)", 1), ("[a](/no.md)", 1)],
)
def test_wrong_link_is_refused(text, code, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(f"# Page\n\n{text}\n")
    pages = {"docs_dir": str(tmp_path / "docs"), "nav": ["README.md"]}
    if code:
        with pytest.raises(Abort):
            built(tmp_path, **pages)
    else:
        wanted = "https://github.com/rdmaprov/rdmaprov/blob/main/LICENSE#b"
        assert wanted in index(built(tmp_path, **pages))


def test_anchors_are_those_of_github():
    page = ROOT / "docs" / "nccl-logs.md"
    text = page.read_text()
    assert {slug(heading) for heading in HEADING.findall(text)} >= anchors(page)
    assert slug("NCCL's own  diagnostics") == "nccls-own--diagnostics"
