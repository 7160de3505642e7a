"""Text without the secrets of a site."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

MASK = "********"
# Shorter ones are masked as words only: `1` as a secret must not take every 1 from a log.
_SHORT = 4
# A part of a secret, such as one line of a key, is masked from this length on.
_LONG_LINE = 8


class Mask:
    """Replaces secrets in text, also as JSON, Python and base64 write them."""

    def __init__(self, secrets: Iterable[str]) -> None:
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

    def data(self, data: Any) -> Any:  # noqa: ANN401 - whatever JSON can be
        """Return plain data without secrets in its texts; keys are names and stay."""
        if isinstance(data, str):
            return self.text(data)
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
