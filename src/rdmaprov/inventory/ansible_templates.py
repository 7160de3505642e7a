"""Templates and vaulted values as Ansible reads them, and its errors in this program's words."""

from __future__ import annotations

from rdmaprov.inventory.ansible_api import (
    AT_RUN_TIME,
    AnsibleError,
    AnsibleVaultError,
    EncryptedString,
    Engine,
    error_position,
    error_text,
)
from rdmaprov.inventory.expression import DYNAMIC
from rdmaprov.inventory.resolve import VAULT_REMEDY, Renderer, ResolveError
from rdmaprov.inventory.tags import position_of


class AnsibleRenderer(Renderer):
    """Renders with Ansible's engine, and decrypts with the vault passwords that Ansible has."""

    at_run_time = DYNAMIC | AT_RUN_TIME

    def __init__(self) -> None:
        super().__init__(Engine())

    def is_encrypted(self, raw: object) -> bool:
        """Return whether a value is vaulted."""
        return isinstance(raw, EncryptedString)

    def explain(self, raw: object, error: Exception) -> ResolveError:
        """Return why a value cannot be rendered or decrypted."""
        at = position_of(raw)
        if isinstance(error, AnsibleVaultError):
            message = "is encrypted, and no vault password decrypts it"
            return ResolveError(at or error_position(error), message, VAULT_REMEDY, "vault")
        text = error_text(error)
        if isinstance(error, AnsibleError):
            message = f"its template fails: {text}" if text else "its template fails"
            return ResolveError(at, message, _remedy(text), "template")
        return ResolveError(at, f"its template fails: {text}", "correct the template", "template")


def _remedy(text: str) -> str:
    if "is undefined" in text:
        return "write the missing variable, or correct its name"
    return "correct the template"
