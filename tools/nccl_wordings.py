"""The wordings of NCCL's failures by version: python -m tools.nccl_wordings CLONE checks them.

CLONE is a clone of NCCL that has its tags; nothing here fetches one. `make generate` writes the
table, which is nccl_wordings.yml, into docs/nccl-forms.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_suffix(".yml")
PAGE = "docs/nccl-forms.md"
BEGIN, END = "<!-- tools/nccl_wordings.yml: begin -->", "<!-- tools/nccl_wordings.yml: end -->"
_FIRST = (2, 18)
_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)-(\d+)")
_CUT = re.compile(r'"\s*\n\s*"')  # one string of C over two lines


@cache
def table() -> dict[str, Any]:
    """Return the table."""
    found: dict[str, Any] = yaml.safe_load(TABLE.read_text())
    return found


def wordings() -> list[dict[str, Any]]:
    """Return the rows of the table."""
    rows: list[dict[str, Any]] = table()["wordings"]
    return rows


def place_in_page(page: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{_text()}{END}{rest.partition(END)[2]}"


def _text() -> str:
    rows = ["| what | versions | form |", "|---|---|---|"]
    for row in wordings():
        until = f"to {_version(row['until'])}" if "until" in row else "and later"
        form = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), row["line"])
        rows.append(f"| {row['what']} | {_version(row['since'])} {until} | `{form}` |")
    tags = ", ".join(map(_version, table()["tags"]))
    return "\n".join(rows) + f"\n\nChecked in NCCL's source at the tags {tags}.\n"


def _version(tag: str) -> str:
    return tag.removeprefix("v").removesuffix("-1")


def _tags(clone: str) -> list[str]:
    """Return the tags of the clone from the first version on, in order."""
    named = [(tuple(map(int, found.groups())), found[0]) for found in _all_tags(clone)]
    return [tag for number, tag in sorted(named) if number >= _FIRST]


def _all_tags(clone: str) -> Iterator[re.Match[str]]:
    for line in _git(clone, "tag").splitlines():
        if found := _TAG.fullmatch(line):
            yield found


def _git(clone: str, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", clone, *words], capture_output=True, text=True, check=False, errors="replace"
    )
    return done.stdout


def _standing(clone: str, tags: Sequence[str], row: dict[str, Any]) -> list[str]:
    """Return the tags at which all words of a row stand in one of its files."""
    words = [row["words"]] if isinstance(row["words"], str) else row["words"]
    found = []
    for tag in tags:
        texts = [_source(clone, tag, path) for path in table()["files"][row["files"]]]
        if any(all(each in text for each in words) for text in texts):
            found.append(tag)
    return found


@cache
def _source(clone: str, tag: str, path: str) -> str:
    """Return a file at a tag, strings joined; empty if it has none."""
    return _CUT.sub("", _git(clone, "show", f"{tag}:{path}"))


def problems(clone: str) -> Iterator[str]:
    """Yield where the table is wrong."""
    tags, known = _tags(clone), table()["tags"]
    if not tags:
        yield f"{clone}: no tag of NCCL {'.'.join(map(str, _FIRST))} or later"
    if tags and tags != known:
        yield f"tags: [{', '.join(tags)}]"
    for row in wordings():
        found = _standing(clone, tags, row)
        where = f"{row['what']}, {row['words']!r}"
        if not found:
            yield f"{where}: at no tag"
        elif found != tags[tags.index(found[0]) : tags.index(found[-1]) + 1]:
            yield f"{where}: not at all tags from {found[0]} to {found[-1]}: {', '.join(found)}"
        else:
            until = None if found[-1] == tags[-1] else found[-1]
            if (row.get("since"), row.get("until")) != (found[0], until):
                yield f"{where}: since {found[0]}" + (f", until {until}" if until else "")


def main(arguments: Sequence[str]) -> int:
    """Print each row with its tags, or where the table is wrong; return 1 then."""
    (clone,) = arguments
    wrong = list(problems(clone))
    for each in wrong:
        print(f"wrong: {each}")  # noqa: T201 - a tool for developers
    for row in wordings() if not wrong else ():
        until = row.get("until", "the newest")
        print(f"{row['since']} to {until}: {row['what']}: {row['words']}")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
