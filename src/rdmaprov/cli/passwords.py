"""The passwords of a run: from a file, or typed and handed to Ansible."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from rdmaprov.cli.options import PasswordOptions, VaultOptions
from rdmaprov.cli.password_pipe import password_pipe
from rdmaprov.errors import UsageError


@dataclass(frozen=True)
class Passwords:
    """Where passwords are read, and the secrets to mask.

    Args:
        vault: the file with the vault password.
        arguments: for ansible-playbook, and for the suite's pytest.
        secrets: the passwords that the user typed.
        become: the sudo password, if the user typed it.

    """

    vault: Path | None
    arguments: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    become: str = field(default="", repr=False)


@contextmanager
def provide_passwords(options: PasswordOptions | VaultOptions) -> Iterator[Passwords]:
    """Ask for passwords; provide each one as a path that only this user can read."""
    vault_file = options["vault_password_file"]
    if options["ask_vault_pass"] and vault_file is not None:
        raise UsageError(
            "--ask-vault-pass and --vault-password-file exclude each other", "Pass one of them."
        )
    secrets: list[str] = []
    arguments: list[str] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rdmaprov-")))

        def ask(what: str) -> Path:
            secrets.append(click.prompt(f"{what} password", hide_input=True, err=True))
            return stack.enter_context(password_pipe(directory / what.lower(), secrets[-1]))

        if options["ask_vault_pass"]:
            vault_file = ask("Vault")
        if vault_file is not None:
            arguments += ["--vault-password-file", str(vault_file)]
        become = ""
        if options.get("ask_become_pass"):
            arguments += ["--become-password-file", str(ask("BECOME"))]
            become = secrets[-1]
        yield Passwords(vault_file, tuple(arguments), tuple(secrets), become)
