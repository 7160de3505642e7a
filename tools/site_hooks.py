"""The documentation site, from pages that are read in a checkout and on GitHub, too: mkdocs.yml."""

from __future__ import annotations

import posixpath
import re
from html import escape

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(\]\()((?:\.\./)+[^)\s]+)")
_HEADING_OR_WIDE = re.compile(
    r'<h[1-6] id="([^"]*)"|<table>|(?<=<span></span>)<code>|</code></pre>'
)


def slug(text: str, separator: str = "-") -> str:
    """Return the anchor that GitHub gives a heading, so that a link is right in both places."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Return the configuration with GitHub's anchors."""
    config.mdx_configs.setdefault("toc", {}).update(slugify=slug, permalink=True)
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links to files outside of docs/ lead into the repository.

    Args:
        markdown: the page's text.
        page: its place.
        config: of it, the repository's address.
        files: of the site; mkdocs passes it by name.
    """
    del files
    place = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def absolute(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(place, found[2]))
        is_page = path.startswith("docs/")
        return found[0] if is_page else f"{found[1]}{config.extra['repository']}/blob/main/{path}"

    return _LINK.sub(absolute, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose tables and blocks a keyboard can scroll sideways.

    Args:
        html: the page's text.
        page: its title names the tables before the first heading.
        config: mkdocs passes it by name, as it does the files of the site.
    """
    del config, files
    heading = str(page.title)

    def reachable(found: re.Match[str]) -> str:
        nonlocal heading
        if found[1] is not None:
            heading = found[1].replace("-", " ")
            return found[0]
        # On a touch screen, the theme takes the attribute from the code itself.
        if found[0].endswith("code>"):
            return '<code><span tabindex="0">'
        if found[0].endswith("pre>"):
            return "</span></code></pre>"
        return f'<table tabindex="0" aria-label="{escape(heading)}">'

    return _HEADING_OR_WIDE.sub(reachable, html)
