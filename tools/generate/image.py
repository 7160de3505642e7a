"""What container/ installs into images: the part of requirements.lock that the program needs."""

import re
from collections.abc import Iterable

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAD = """\
# Generated from requirements.lock and pyproject.toml by: make generate
# What the program needs, without its extras; requirements.lock says why each is there.
"""
FILE = "container/requirements.txt"
_ENTRY = re.compile(r"^(?P<name>[\w.-]+)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_USERS = re.compile(r"^    # via(.*?)(?=^    [^#]|\Z)", re.MULTILINE | re.DOTALL)
_ROOT = "rdmaprov"


def requirements(lock: str, dependencies: Iterable[str]) -> str:
    """Return the entries of a lock, with their hashes, that the dependencies lead to.

    Args:
        lock: the text of pip-compile, which lists with each package those that need it.
        dependencies: of the project, as pyproject.toml has them.
    """
    direct = {canonicalize_name(Requirement(each).name) for each in dependencies}
    entries = {found["name"]: found[0] for found in _ENTRY.finditer(lock)}
    users = {name: set(_users(text)) for name, text in entries.items()}
    needed = {name for name in entries if name in direct and _ROOT in users[name]}
    while more := {name for name, by in users.items() if by & needed} - needed:
        needed |= more
    return HEAD + "".join(_USERS.sub("", entries[name]) for name in sorted(needed))


def _users(entry: str) -> Iterable[str]:
    for listed in _USERS.findall(entry):
        yield from re.findall(r"[\w.-]+(?=$| \()", listed, re.MULTILINE)
