"""The passwords of a run: from a file, or typed and handed to Ansible."""

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from rdmaprov.cli.options import PasswordOptions, VaultOptions
from rdmaprov.errors import UsageError


@contextlib.contextmanager
def password_pipe(path: Path, password: str) -> Iterator[Path]:
    """Provide a named pipe from which each reader gets the password; remove it at the end.

    Readers that may be there at the same time take turns (inventory.password_file).

    A program that is killed leaves the pipe, which is a name without content. A sealed memfd
    would leave nothing, but Ansible resolves the path of --become-password-file, and
    /proc/PID/fd/N resolves to a name that does not exist.

    Args:
        path: does not exist yet; in a directory of this user alone.
        password: without the end of the line.
    """
    os.mkfifo(path, 0o600)
    ended = threading.Event()
    writer = threading.Thread(
        target=_write_to_each, args=(path, password.encode() + b"\n", ended), daemon=True
    )
    writer.start()
    try:
        yield path
    finally:
        ended.set()
        with _reader(path):  # which the writer may wait for
            writer.join()
        path.unlink(missing_ok=True)


def _write_to_each(path: Path, line: bytes, ended: threading.Event) -> None:
    """Write a line to each reader in turn; a reader of a file reads until the end."""
    following = path.with_suffix(".next")
    try:
        while not ended.is_set():
            with path.open("wb", buffering=0) as pipe:  # waits for a reader
                if ended.is_set():
                    return
                # The next reader has a pipe of its own: this one may still be reading.
                os.mkfifo(following, 0o600)
                following.replace(path)
                with contextlib.suppress(BrokenPipeError):
                    pipe.write(line)
    except OSError:
        path.unlink(missing_ok=True)  # a reader would wait for ever


@contextlib.contextmanager
def _reader(path: Path) -> Iterator[None]:
    """Hold a pipe open for reading, without waiting for its writer."""
    try:
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        os.close(pipe)


@dataclass(frozen=True)
class Passwords:
    """Where passwords are read, and the secrets to mask."""

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
