"""Reports in a real browser: nothing on the console, all parts there, readable in both schemes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from tests.report import gate_runs, runs
from tests.report.chromium import OUT_OF_REACH, WIDE, chromium, require_readable, show, texts

from rdmaprov.report.write import html

pytestmark = pytest.mark.browser

PAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "validate 4": lambda: runs.validated(4),
    "validate 64": lambda: runs.validated(64),
    "validate 1024": lambda: runs.validated(1024),
    "validate 1024 passing": lambda: runs.validated(1024, bad=False),
    "apply 4": lambda: runs.applied(4),
    "apply 1024": lambda: runs.applied(1024),
    "plan 64": lambda: runs.applied(64, "plan"),
    "accept 4": lambda: gate_runs.accepted(4),
    "accept 4 gloo": lambda: gate_runs.accepted(4, nccl=False),
    "accept 64 pairs": lambda: gate_runs.accepted(64, pairs=True),
    "accept 64 passing": lambda: gate_runs.accepted(64, bad=False),
    "accept 1024": lambda: gate_runs.accepted(1024, per_node=2),
}
HEADLINES = {
    "validate": ("Failed", "Passed"),
    "apply": ("Failed", ""),
    "plan": ("Unknown", ""),
    "accept": ("Refused", "Accepted"),
}

# The sections that have a picture with something in it.
DRAWN = """
const good = svg => svg.getBoundingClientRect().height > 100
  && svg.querySelectorAll("path, use, image").length > 9;
return [...document.querySelectorAll("section")]
  .filter(e => [...e.querySelectorAll("svg")].some(good)).map(e => e.id);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pages")
    kept: dict[str, Path] = {}

    def page(name: str) -> Path:
        if name not in kept:
            kept[name] = directory / f"{name.replace(' ', '-')}.html"
            kept[name].write_text(html(PAGES[name]()))
        return kept[name]

    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page(browser, pages, name, scheme):
    require_readable(browser, pages(name), scheme)
    verb = name.split()[0]
    (headline,) = texts(browser, "h1")
    assert headline.endswith(HEADLINES[verb][name.endswith("passing")])
    assert len(texts(browser, "#grid tbody tr")) >= 1
    assert len(texts(browser, "#grid tbody tr")) < 40
    assert browser.execute_script(DRAWN) == (["bandwidth"] if verb == "accept" else [])


@pytest.mark.parametrize("width", [WIDE, 768, 360])
@pytest.mark.parametrize("name", ["validate 1024", "apply 4", "accept 64 pairs"])
def test_page_is_no_wider_than_its_window(browser, pages, name, width):
    show(browser, pages(name), "light", width)
    browser.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")
    sizes = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    wide, window = browser.execute_script(sizes)
    assert wide <= window <= width
    assert browser.execute_script(OUT_OF_REACH) == []


def test_schemes_differ_in_page_and_picture(browser, pages):
    asked = """
    const line = document.querySelector("#bandwidth [style*='--series-0']");
    const text = document.querySelector("#bandwidth text");
    return [getComputedStyle(document.documentElement).backgroundColor,
            getComputedStyle(line).stroke, getComputedStyle(text).fill];
    """
    seen = []
    for scheme in ("light", "dark"):
        show(browser, pages("accept 4"), scheme)
        seen.append(browser.execute_script(asked))
    assert all(light != dark for light, dark in zip(*seen, strict=True))
    assert "none" not in [value for scheme in seen for value in scheme]


def test_keyboard_reaches_everything_and_shows_where_it_is(browser, pages):
    show(browser, pages("validate 64"), "light")
    state = """
    const e = document.activeElement;
    return [e.tagName, e.matches(arguments[0]), getComputedStyle(e).outlineStyle];
    """
    query = "a[href], summary, [tabindex='0']"
    seen = []
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        tag, expected, outline = browser.execute_script(state, query)
        if tag == "BODY":
            break
        seen += [tag] if expected else []  # a box that can be scrolled is stopped at, too
        assert outline == "solid"
        if tag == "SUMMARY":
            browser.switch_to.active_element.send_keys(Keys.ENTER)
    count = "return document.querySelectorAll(arguments[0]).length"
    assert len(seen) == browser.execute_script(count, query)
    assert browser.execute_script(count, "details:not([open])") == 0


def test_script_of_a_node_s_is_text(browser, tmp_path):
    text = html(gate_runs.accepted(4)).replace("gpu2", "&lt;script&gt;alert(1)&lt;/script&gt;")
    path = tmp_path / "odd.html"
    path.write_text(text)
    show(browser, path, "light")
    assert browser.execute_script("return document.scripts.length") == 0
    assert browser.get_log("browser") == []
