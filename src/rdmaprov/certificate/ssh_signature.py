"""Signatures of ssh-keygen: made with an operator's key, and verified.

https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
"""

import base64
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from rdmaprov.errors import UsageError
from rdmaprov.problem import printable

KEY = r"(ssh|ecdsa|sk)-[a-z0-9@.-]{1,64} [A-Za-z0-9+/=]{16,4096}"
_LIMIT_S = 60
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_KEY_IN_LINE = re.compile(r"(?:^| )(?:ssh|ecdsa|sk)-[a-z0-9@.-]{1,64} +([A-Za-z0-9+/=]{16,4096})")
_ANYONE = "node"


class NotSigned(Exception):
    """Why there is no signature, or none that counts."""


def sign(data: bytes, key: Path, namespace: str) -> bytes:
    """Return a signature; a key with a passphrase is used by ssh-agent. NotSigned: it cannot be."""
    done = _ask(["sign", "-q", "-f", str(key), "-n", namespace], data)
    if done.returncode or not done.stdout:
        raise NotSigned(_last_line(done.stderr))
    return done.stdout


def require_key(key: Path) -> None:
    """Sign something, or raise UsageError, before hours of measurements are to be signed."""
    try:
        sign(b"rdmaprov\n", key, OPEN_NAMESPACE)
    except NotSigned as error:
        raise UsageError(
            f"{key}: cannot sign with this key: {error}",
            "Name a private key without a passphrase, or run: ssh-add KEY",
        ) from error


OPEN_NAMESPACE = "rdmaprov-try"


def signer_of(data: bytes, signature: bytes, namespace: str) -> str:
    """Return the fingerprint of the key that signed data, whoever has it.

    Raises:
        NotSigned: the signature is not of this data.
    """
    with _file(signature) as path:
        done = _ask(["check-novalidate", "-n", namespace, "-s", path], data)
    found = _FINGERPRINT.search(done.stdout.decode(errors="replace"))
    if done.returncode or not found:
        raise NotSigned(_last_line(done.stderr or done.stdout))
    return found[0]


def principal_of(data: bytes, signature: bytes, namespace: str, allowed: Path) -> str:
    """Return under which name a file of allowed signers has the key that signed data.

    Raises:
        NotSigned: it has that key not, or not for this namespace and time.
    """
    with _file(signature) as path:
        done = _ask(["find-principals", "-s", path, "-f", str(allowed)], b"")
        names = done.stdout.decode(errors="replace").splitlines()  # of the first line with the key
        names += _names_of(signer_of(data, signature, namespace), allowed)
        if not names:
            raise NotSigned(_last_line(done.stderr))
        for name in dict.fromkeys(names):
            words = ["verify", "-f", str(allowed), "-I", name, "-n", namespace, "-s", path]
            done = _ask(words, data)
            if not done.returncode:
                return printable(name)
    raise NotSigned(_last_line(done.stderr or done.stdout))


def _names_of(fingerprint: str, allowed: Path) -> Iterator[str]:
    """Yield the principals of all lines with a key, each line with its own namespaces and times."""
    try:
        lines = allowed.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        names, _, rest = line.strip().partition(" ")
        for found in _KEY_IN_LINE.finditer(rest):
            try:
                made = hashlib.sha256(base64.b64decode(found[1], validate=True)).digest()
            except ValueError:
                continue
            if f"SHA256:{base64.b64encode(made).decode().rstrip('=')}" == fingerprint:
                yield from names.strip('"').split(",")


def is_by(data: bytes, signature: bytes, namespace: str, keys: Sequence[str]) -> bool:
    """Return whether one of these public keys, each `type base64`, signed data."""
    lines = [f'{_ANYONE} namespaces="{namespace}" {key}\n' for key in keys]
    if not lines or any(not re.fullmatch(KEY, key) for key in keys):
        return False
    with _file("".join(lines).encode()) as allowed, _file(signature) as path:
        words = ["verify", "-f", allowed, "-I", _ANYONE, "-n", namespace, "-s", path]
        return _ask(words, data).returncode == 0


def key_of(data: bytes, armored: str, namespace: str) -> str:
    """Return the public key that signed data, as `type base64`, whoever has it.

    Ed25519 is verified in this process: ten thousand of ssh-keygen's would take a minute.

    Raises:
        NotSigned: the signature is not of this data, or for another purpose.
    """
    kind, why = b"", "it has no signature of what it says"
    try:
        blob = base64.b64decode("".join(armored.split()[3:-3]), validate=True)
        public, _, _, algorithm, signature = _strings(blob.removeprefix(b"SSHSIG\0\0\0\1"))
        kind, *parts = _strings(public)
        key = f"{kind.decode()} {base64.b64encode(public).decode()}"
        if kind == b"ssh-ed25519":
            hashed = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}[algorithm](data)
            signed = (namespace.encode(), b"", algorithm, hashed.digest())
            whole = b"".join(len(each).to_bytes(4, "big") + each for each in signed)
            [_, own] = _strings(signature)
            Ed25519PublicKey.from_public_bytes(*parts).verify(own, b"SSHSIG" + whole)
    except (InvalidSignature, LookupError, TypeError, ValueError) as error:
        raise NotSigned(why) from error
    if kind != b"ssh-ed25519" and not is_by(data, armored.encode(), namespace, [key]):
        raise NotSigned(why)
    return key


def _strings(data: bytes) -> Iterator[bytes]:
    """Yield the strings that data has, each behind its length (RFC 4251, 5)."""
    while data:
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            raise ValueError("it is cut off")
        yield data[4 : 4 + size]
        data = data[4 + size :]


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Provide the path of a file with content that ssh-keygen reads."""
    with tempfile.NamedTemporaryFile(prefix="rdmaprov-") as file:
        file.write(content)
        file.flush()
        yield file.name


def _ask(words: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    """Return what ssh-keygen said, or raise NotSigned; it must never ask for a passphrase."""
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", *words],
            input=data,
            capture_output=True,
            timeout=_LIMIT_S,
            env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotSigned(f"ssh-keygen: {error}") from error


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return printable(lines[-1])[:200] if lines else "ssh-keygen gives no reason"
