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

# page.js has what each of them returns.
_SCRIPT = Path(__file__).with_name("page.js").read_text()
CONTRAST, LACKS, OUT_OF_REACH, CUT_OFF = (
    f"{_SCRIPT}return {name}();" for name in ("contrast", "lacks", "outOfReach", "cutOff")
)


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
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
