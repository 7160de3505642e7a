// What a reader would miss of a page: for tests/report/chromium.py, which returns what each function does.

// The least contrast of a text with what is behind it, by WCAG 2.2; with the text itself.
function contrast() {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const rgba = text => text.match(/[\d.]+/g).map(Number);
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
}

// What a reader without sight or mouse would miss.
function lacks() {
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
}

// What scrolls and holds nothing that a keyboard reaches (axe: scrollable-region-focusable).
function outOfReach() {
  const may = /auto|scroll/, scrolls = (e, style) =>
    may.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1
    || may.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1;
  const focus = "a[href], button, input, summary, [tabindex='0']";
  return [...document.querySelectorAll("body *")].filter(e => e.checkVisibility()
    && scrolls(e, getComputedStyle(e)) && !e.matches(focus) && !e.querySelector(focus)
  ).map(e => e.outerHTML.slice(0, 80));
}

// Parts of a plot that lie outside of it.
function cutOff() {
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
}
