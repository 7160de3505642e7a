"""The fingerprints of OpenPGP keys, without gpg, which a node may lack. Runs on the node."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_BLOCK = _BEGIN + r"\s*\n(.*?)-----END PGP PUBLIC KEY BLOCK-----"
_PUBLIC_KEY = 6


def fingerprints(text: str) -> list[str]:
    """Return the fingerprints of the primary keys in an armored file, in upper case.

    Raises:
        ValueError: it is no armored public key, or none of version 4, which apt and rpm take.
    """
    found = []
    for block in re.findall(_BLOCK, text.replace("\r", ""), re.S):
        found += [
            _fingerprint(body) for tag, body in _packets(_dearmor(block)) if tag == _PUBLIC_KEY
        ]
    if not found:
        raise ValueError("there is no armored OpenPGP public key in it")
    return found


def _dearmor(block: str) -> bytes:
    """Return an armored block's bytes.

    Header lines end with an empty one, and "=" begins the checksum.
    """
    headers, empty, body = block.partition("\n\n")
    if not empty or not all(": " in line for line in headers.split("\n") if line):
        body = block
    lines = [line.strip() for line in body.split("\n")]
    try:
        return base64.b64decode("".join(line for line in lines if not line.startswith("=")))
    except binascii.Error as error:
        raise ValueError("its armor is damaged") from error


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each packet's tag and body, by RFC 4880, section 4.2."""
    at = 0
    try:
        while at < len(data):
            head = data[at]
            if not head & 0x80:
                raise ValueError("it is damaged")
            if head & 0x40:
                tag, (length, at) = head & 0x3F, _new_length(data, at + 1)
            else:
                if head & 3 == 3:
                    raise ValueError("it has a packet without a length, which no key has")
                tag, octets = head >> 2 & 0x0F, 1 << (head & 3)
                length, at = int.from_bytes(data[at + 1 : at + 1 + octets], "big"), at + 1 + octets
            if at + length > len(data):
                raise ValueError("it is cut")
            yield tag, data[at : at + length]
            at += length
    except IndexError as error:
        raise ValueError("it is cut") from error


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 192:
        return first, at + 1
    if first < 224:
        return (first - 192 << 8) + data[at + 1] + 192, at + 2
    if first < 255:
        # Of data alone, section 4.2.2.4; read as a length, it would hide what follows.
        raise ValueError("it has a packet of partial length, which no key has")
    return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5


def _fingerprint(body: bytes) -> str:
    """Return a version 4 key's fingerprint, by RFC 4880, section 12.2."""
    if body[:1] != b"\x04":
        raise ValueError("its key is not of version 4")
    framed = b"\x99" + len(body).to_bytes(2, "big") + body
    return hashlib.sha1(framed).hexdigest().upper()  # noqa: S324 (the standard says so)
