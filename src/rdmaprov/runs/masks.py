"""Text without the secrets of a site, and with its path in the commands that a user can copy."""

import base64
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MASK = "********"
# Shorter ones are masked as words only: `1` as a secret must not take every 1 from a log.
_SHORT = 4
# A part of a secret, such as one line of a key, is masked from this length on.
_LONG_LINE = 8
_COMMAND_OF_SITE = re.compile(r"(rdmaprov [a-z]+ )SITE\b")
_OF_RUN = "runs/RUN/"


def name_site(text: str, site: Path | str) -> str:
    """Return a text whose commands name this site; those who write remedies do not know it."""
    return _COMMAND_OF_SITE.sub(lambda found: found[1] + shlex.quote(str(site)), text)


class Mask:
    """Replaces secrets in text, also as JSON, Python and base64 write them.

    Args:
        site: the site as the user typed it, for commands in what a user reads.
        run: the directory of the run under way, for the same.
    """

    def __init__(self, secrets: Iterable[str], site: Path | None = None) -> None:
        self.site, self.run = site, Path(_OF_RUN)
        forms = {form for secret in secrets for form in _forms(secret)}
        words = sorted(re.escape(form) for form in forms if len(form) < _SHORT)
        self._words = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)") if words else None
        self._by_head: dict[str, list[str]] = {}
        for form in forms:
            if len(form) >= _SHORT:
                self._by_head.setdefault(form[:_SHORT], []).append(form)

    def text(self, text: str) -> str:
        """Return the text without secrets; it takes as long for many secrets as for few."""
        if self._by_head:
            heads = {text[at : at + _SHORT] for at in range(len(text) - _SHORT + 1)}
            found = [form for head in heads & self._by_head.keys() for form in self._by_head[head]]
            # A secret may be part of another one: the longest go first.
            for form in sorted(found, key=lambda form: (-len(form), form)):
                text = text.replace(form, MASK)
        return self._words.sub(MASK, text) if self._words else text

    def shown(self, text: str) -> str:
        """Return the text as a user reads it: without secrets, with the paths of site and run."""
        text = name_site(text, self.site) if self.site else text
        return self.text(text.replace(_OF_RUN, f"{shlex.quote(str(self.run))}/"))

    def data(self, data: Any) -> Any:  # noqa: ANN401 - whatever JSON can be
        """Return plain data, its texts as a user reads them; keys are names and stay."""
        if isinstance(data, str):
            return self.shown(data)
        if isinstance(data, dict):
            return {key: self.data(item) for key, item in data.items()}
        if isinstance(data, (list, tuple)):
            return [self.data(item) for item in data]
        return data


def _forms(secret: str) -> Iterator[str]:
    lines = [line.strip() for line in secret.splitlines()]
    parts = [line for line in lines if len(line) >= _LONG_LINE] if len(lines) > 1 else []
    for part in (secret, secret.strip(), *parts):
        if not part:
            continue
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield repr(part)[1:-1]
        if len(part) >= _SHORT:
            yield base64.b64encode(part.encode()).decode()
