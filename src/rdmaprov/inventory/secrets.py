"""The secrets of a site, which no log may show: vaulted values, and passwords by their names."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rdmaprov.inventory.ansible_api import AnsibleError, EncryptedString, Inventory
from rdmaprov.inventory.resolve import ResolveError, Variables, has_template
from rdmaprov.inventory.tags import position_of

# ansible_password, ansible_become_pass, slurm_token, … but no file, such as one with a key.
# The words of both lists: of a site's variables here, and of a node's texts in record/scrub.py.
LONG_WORDS = (
    r"password|passwd|passphrase|secret|credential|token|psk"
    r"|(?:api|private|secret|access|auth|preshared|encryption|account|signing)[_-]?key"
)
SHORT_WORDS = "pass|pwd|pw"  # part of other words, such as bypass
_NAME = re.compile(rf"(?:^|_)(?:{LONG_WORDS}|{SHORT_WORDS})s?\Z", re.IGNORECASE)
_VAULT = b"$ANSIBLE_VAULT;"


def find(inventory: Inventory, variables_of: Callable[[Any], Variables]) -> frozenset[str]:
    """Return the secret values of all hosts of a site, as text."""
    secrets: set[str] = set()
    seen: set[int] = set()  # hosts of the same groups share their variables
    for host in inventory.hosts.values():
        layers = [inventory.group_variables(host), inventory.host_variables(host)]
        for layer in layers:
            for name, value in layer.items():
                if is_secret_name(str(name)) and has_template(value):
                    secrets.update(_template_texts(variables_of(host), str(name)))
                elif id(layer) not in seen:
                    secrets.update(_secrets(str(name), value, inherited=False))
            seen.add(id(layer))
    return frozenset(secrets)


@cache
def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name holds a secret."""
    return _NAME.search(name) is not None


def _template_texts(variables: Variables, name: str) -> Iterator[str]:
    try:
        yield from _texts(variables.value(name))
    except ResolveError:
        return  # it has no value, so it reaches no node either


def _secrets(name: str, value: Any, *, inherited: bool) -> Iterator[str]:
    """Yield the secret parts of a variable, or of an entry in one."""
    secret = inherited or is_secret_name(name)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(str(key), item, inherited=secret)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _secrets(name, item, inherited=secret)
    elif secret or isinstance(value, EncryptedString) or _is_vaulted(value):
        yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        try:
            yield str(value)
        except AnsibleError:
            return  # no password decrypts it, so it cannot reach a log


def _is_vaulted(value: Any) -> bool:
    at = position_of(value)
    return at is not None and _is_encrypted(at.file)


@cache
def _is_encrypted(file: str) -> bool:
    try:
        with Path(file).open("rb") as stream:
            return stream.read(len(_VAULT)) == _VAULT
    except OSError:
        return False
