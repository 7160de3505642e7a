"""The scalars of YAML 1.1 as Ansible reads them: what is refused, and how many there may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from rdmaprov.problem import Position

PREFIX = "tag:yaml.org,2002:"
MERGE = f"{PREFIX}merge"
TEXT = f"{PREFIX}str"
_CONSTRUCTOR = SafeConstructor()
_SCALARS: dict[str, Callable[[SafeConstructor, yaml.ScalarNode], Any]] = {
    f"{PREFIX}null": SafeConstructor.construct_yaml_null,
    f"{PREFIX}bool": SafeConstructor.construct_yaml_bool,
    f"{PREFIX}int": SafeConstructor.construct_yaml_int,
    f"{PREFIX}float": SafeConstructor.construct_yaml_float,
    f"{PREFIX}timestamp": SafeConstructor.construct_yaml_timestamp,
}
_VAULT_TAGS = frozenset({"!vault", "!vault-encrypted"})
VAULT_HEAD = "$ANSIBLE_VAULT;"
_MOST_DIGITS = 64  # 64 bits; thousands, in base 60, take seconds


class YamlError(ValueError):
    """A file that cannot be read on; has the line, column and reason."""

    def __init__(self, line: int, column: int, message: str, remedy: str) -> None:
        super().__init__(message)
        self.line, self.column, self.message, self.remedy = line, column, message, remedy


@dataclass(frozen=True)
class Vaulted:
    """The marker for a vaulted value, which stays encrypted."""

    def __str__(self) -> str:
        """Refuse to be read; raise ValueError."""
        raise ValueError("is encrypted")


@dataclass
class Budget:
    """How many values may still be read; shared by the files of a site."""

    most: int
    used: int = 0

    def take(self, count: int, line: int, column: int) -> None:
        """Count values.

        Raises:
            YamlError: there are too many.

        """
        self.used += count
        if self.used > self.most:
            message = f"the site has more than {self.most:,} values, each alias counted in full"
            raise YamlError(line, column, message, "write fewer values, and no aliases of aliases")


class Judge:
    """What is refused in a text or a dictionary; this one refuses nothing of a trusted file."""

    def wrong_text(self, _value: str, *, literal: bool) -> tuple[str, str] | None:  # noqa: ARG002
        """Return what is wrong with a text and what to do; a literal one is no template."""
        return None

    def refuse(self, at: Position, names: list[str], message: str, remedy: str) -> None:
        """Take note of what is wrong at a place.

        Raises:
            YamlError: always, as none of this is in a trusted file.

        """
        raise YamlError(at.line, at.column, f"{'/'.join(names)}: {message}", remedy)


def scalar(tag: str, text: str, refuse: Callable[[str, str], None]) -> Any:
    """Return what a plain scalar stands for; None where that is refused.

    Args:
        tag: in full, resolved.
        text: as written.
        refuse: called with what is wrong and what to write.

    """
    if tag in _VAULT_TAGS:
        if not text.lstrip().startswith(VAULT_HEAD):
            refuse("the value is not vaulted", "encrypt it, or remove !vault")
        return Vaulted()
    if tag not in _SCALARS:
        refuse(f"the YAML tag {tag} is not allowed", "write a plain value")
        return None
    if len(text) > _MOST_DIGITS:
        message = f"the number has {len(text):,} characters, and the limit is {_MOST_DIGITS}"
        refuse(message, "write it in quotes if it is text")
        return None
    try:
        # Any loader has the constructors; each looks at the node alone.
        return _SCALARS[tag](_CONSTRUCTOR, yaml.ScalarNode(tag, text))
    except (ValueError, OverflowError, LookupError, AttributeError, ConstructorError):
        noun = tag.removeprefix(PREFIX)
        refuse(f"YAML reads it as {noun}, which it is not", "write it in quotes")
        return None
