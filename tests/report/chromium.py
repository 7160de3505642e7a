"""A page in a real browser, and what its reader would miss there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
WIDE = 1200
ROOT = Path(__file__).parents[2]

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
# What scrolls and holds nothing that a keyboard reaches (axe: scrollable-region-focusable).
OUT_OF_REACH = """
const may = /auto|scroll/, scrolls = (e, style) =>
  may.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1
  || may.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1;
const focus = "a[href], button, input, summary, [tabindex='0']";
return [...document.querySelectorAll("body *")].filter(e => e.checkVisibility()
  && scrolls(e, getComputedStyle(e)) && !e.matches(focus) && !e.querySelector(focus)
).map(e => e.outerHTML.slice(0, 80));
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


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Provide a browser with a profile of its own."""
    # Without them selenium would fetch some from the network.
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program, "there is no chromium; run: make test-tools"
    assert driver, "there is no chromedriver; run: make test-tools"
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield opened
    finally:
        opened.quit()


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


def require_readable(browser, path, scheme):
    """Show a page, and require what each page must have: no error, contrast, names for readers."""
    show(browser, path, scheme)
    assert browser.get_log("browser") == []
    ratio, text = browser.execute_script(CONTRAST)
    assert ratio >= 4.5, text
    assert browser.execute_script(LACKS) == []
    assert browser.execute_script(CUT_OFF) == []
