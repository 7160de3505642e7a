"""The documentation site in a real browser: no page scrolls sideways, none asks a network."""

from __future__ import annotations

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from tests.report.chromium import OUT_OF_REACH, ROOT, chromium, show

pytestmark = pytest.mark.browser

PAGES = ["index.html", "production.html", "symptoms.html", "findings.html"]
SCHEMES = {"light": "default", "dark": "slate"}
SEEN = "return [document.documentElement.scrollWidth <= innerWidth, document.body.dataset]"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place)))
    return place


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_page_fits_its_window_and_follows_the_system_s_scheme(browser, site, name, scheme, width):
    show(browser, site / name, scheme, width)
    fits, page = browser.execute_script(SEEN)
    assert fits
    assert page["mdColorScheme"] == SCHEMES[scheme]
    assert browser.execute_script(OUT_OF_REACH) == []
    assert browser.get_log("browser") == []
