"""Reports in a real browser: nothing on the console, all parts there, readable in both schemes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from tests.report import gate_runs, runs

from rdmaprov.report.page import html

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
WIDE, NARROW = 1200, 420
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
PLOTS = ["bandwidth", "pairs", "rails", "samples", "ranks"]
WITHOUT_SAMPLES = {"accept 1024"}  # as an older rdmaprov wrote results

# The least contrast of a text with what is behind it, by WCAG 2.2; with the text itself.
CONTRAST = """
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const rgba = text => text.match(/[\\d.]+/g).map(Number);
const behind = element => {
  for (; element; element = element.parentElement) {
    const c = rgba(getComputedStyle(element).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
};
let least = [99, ""];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim());
  if (!own.length || !element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const colour = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
  const [a, b] = [luminance(rgba(colour)), luminance(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < least[0]) least = [ratio, own[0].data];
}
return least;
"""
# What a reader without sight or mouse would miss.
LACKS = """
const missing = [];
const all = (query, bad) => document.querySelectorAll(query).forEach(
  element => bad(element) && missing.push(element.outerHTML.slice(0, 80)));
all("th", e => !["row", "col"].includes(e.scope));
all("table", e => !e.caption);
all("[role=img]", e => !e.getAttribute("aria-label"));
all(".scroll", e => e.tabIndex !== 0 || !e.getAttribute("aria-label"));
all("details", e => !e.querySelector("summary").textContent.trim());
all("section", e => !document.getElementById(e.getAttribute("aria-labelledby")));
all("td.bad, td.good, td.unknown, td.due, td.idle", e => !e.querySelector(".hidden").textContent);
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
return missing.concat(ids.filter((id, place) => ids.indexOf(id) !== place));
"""
# Parts of a plot that lie outside of it.
CUT_OFF = """
const cut = [];
for (const svg of document.querySelectorAll("svg")) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll("text")) {
    const own = text.getBoundingClientRect();
    if (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1
        || own.bottom > box.bottom + 1) cut.push(text.textContent);
  }
}
return cut;
"""

# The sections that have a picture with something in it.
DRAWN = """
const good = svg => svg.getBoundingClientRect().height > 100
  && svg.querySelectorAll("path, use, image").length > 9;
return [...document.querySelectorAll("section")]
  .filter(e => [...e.querySelectorAll("svg")].some(good)).map(e => e.id);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    # Without them selenium would fetch some from the network.
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "there is no chromium; run: make test-tools"
    assert driver, "there is no chromedriver; run: make test-tools"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


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


def show(browser, path, scheme, width=WIDE):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())


def texts(browser, query):
    elements = "[...document.querySelectorAll(arguments[0])]"
    return browser.execute_script(f"return {elements}.map(e => e.innerText.trim())", query)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page(browser, pages, name, scheme):
    show(browser, pages(name), scheme)
    assert browser.get_log("browser") == []
    verb = name.split()[0]
    (headline,) = texts(browser, "h1")
    assert headline.endswith(HEADLINES[verb][name.endswith("passing")])
    assert len(texts(browser, "#grid tbody tr")) >= 1
    assert len(texts(browser, "#grid tbody tr")) < 40
    drawn = browser.execute_script(DRAWN)
    plots = [plot for plot in PLOTS if plot != "samples" or name not in WITHOUT_SAMPLES]
    assert drawn == (plots if verb == "accept" else [])
    images = browser.execute_script("return document.querySelectorAll('#pairs image').length")
    assert images == (2 if verb == "accept" else 0)  # the map and its scale
    ratio, text = browser.execute_script(CONTRAST)
    assert ratio >= 4.5, text
    assert browser.execute_script(LACKS) == []
    assert browser.execute_script(CUT_OFF) == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", ["validate 1024", "apply 4", "accept 64 pairs"])
def test_page_is_no_wider_than_its_window(browser, pages, name, width):
    show(browser, pages(name), "light", width)
    browser.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")
    sizes = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    wide, window = browser.execute_script(sizes)
    assert wide <= window <= width


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
